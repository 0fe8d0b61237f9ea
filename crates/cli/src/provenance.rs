//! Provenance of a run: the program, the command, the description and the files that went into it.

use crate::failure::Failure;
use crate::subject::is_stream;
use crate::version::COMMIT;
use anyhow::anyhow;
use pellucid_report::{Input, Provenance};
use pellucid_spec::Spec;
use ring::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;

/// A file that a run reads, by its part in the run.
pub type Reads = (&'static str, PathBuf);

/// Returns everything that determines a run of this description.
pub fn of(spec: &Spec, reads: &[Reads], seeds: &BTreeMap<String, u64>) -> Result<Provenance, Failure> {
    Ok(Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: COMMIT.map(String::from),
        command: crate::output::words().collect(),
        description: spec.resolved(),
        seeds: seeds.clone(),
        inputs: reads.iter().map(|(role, path)| input(role, path)).collect::<Result<_, _>>()?,
    })
}

fn input(role: &str, path: &Path) -> Result<Input, Failure> {
    let sha256 = match is_stream(path) {
        true => None,
        false => Some(sha256(path)?),
    };
    Ok(Input { role: role.into(), path: path.display().to_string(), sha256 })
}

/// SHA-256 of a file's bytes, in hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::asked(anyhow!("{}: cannot read: {error}", path.display()));
    let mut file = File::open(path).map_err(unreadable)?;
    let (mut context, mut chunk) = (Context::new(&SHA256), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).map_err(unreadable)? {
            0 => break,
            bytes => context.update(&chunk[..bytes]),
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of "abc" is in the examples of FIPS 180-4.
    #[test]
    fn files_have_the_published_digest() {
        let path = std::env::temp_dir().join(format!("pellucid-digest-{}", std::process::id()));
        std::fs::write(&path, "abc").expect("written");
        let digest = sha256(&path).expect("read");
        let _ = std::fs::remove_file(&path);
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
