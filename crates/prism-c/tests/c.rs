//! Runs the example in C, compiled with AddressSanitizer, on every kind of drive.

#![expect(clippy::print_stderr, reason = "what is skipped is told")]

use pellucid_device::Device;
use pellucid_serve::event::Event;
use pellucid_serve::{Address, Core, Options, Server, Time};
use pellucid_target::nvme::{Connection, SubsystemConfig, Target};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{OnceLock, mpsc};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pellucid-prism-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary directory");
    path
}

/// Runs a command. The error is its output.
fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Returns the flags that pkg-config prints, or would print if it were installed.
fn flags(prefix: &Path) -> Vec<String> {
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "pellucid-prism"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    match run(&mut ask) {
        Ok(output) => String::from_utf8_lossy(&output.stdout).split_whitespace().map(String::from).collect(),
        Err(why) => {
            eprintln!("pkg-config is not used: {why}");
            let prefix = prefix.display();
            vec![format!("-I{prefix}/include"), format!("-L{prefix}/lib"), "-lpellucid-prism".into()]
        }
    }
}

/// Compiles the example once; `None` if there is no C compiler.
fn example() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    MADE.get_or_init(|| {
        let Some(compiler) = ["cc", "gcc", "clang"].into_iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        }) else {
            eprintln!("SKIPPED: no C compiler; the C interface is not tested");
            return None;
        };
        // Every test may be a separate process; the first one compiles the example, and later runs reuse it.
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prism-c");
        std::fs::create_dir_all(&directory).expect("a directory");
        let lock = std::fs::File::create(directory.join("lock")).expect("a file");
        lock.lock().expect("its turn");
        let mine = std::env::current_exe().expect("this test");
        let built = mine.parent().expect("a directory");
        let source = root().join("examples/c/levels.c");
        let header = root().join("crates/prism-c/include/pellucid/prism.h");
        let program = directory.join("levels");
        let made = |path: &Path| std::fs::metadata(path).and_then(|there| there.modified()).ok();
        let parts =
            [&built.join("libpellucid_prism_c.so"), &source, &header, &root().join("tools/install_lib.sh")];
        if made(&program)
            .is_some_and(|made_at| parts.iter().all(|part| made(part).is_some_and(|at| at < made_at)))
        {
            return Some(program);
        }
        let mut install = Command::new("sh");
        install.arg(root().join("tools/install_lib.sh")).arg(built).arg(&directory);
        run(&mut install).unwrap_or_else(|why| panic!("it cannot be installed: {why}"));
        let mut compile = Command::new(compiler);
        compile.args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-g",
            "-fsanitize=address,undefined",
        ]);
        compile.arg(&source).arg("-o").arg(&program);
        compile.args(flags(&directory)).arg(format!("-Wl,-rpath,{}/lib", directory.display()));
        if let Err(why) = run(&mut compile) {
            panic!("the example does not compile: {why}");
        }
        Some(program)
    })
    .as_deref()
}

/// Runs the example, which checks the data that it reads.
fn levels(arguments: &[&str]) {
    let Some(program) = example() else { return };
    let output = run(Command::new(program).args(arguments)).unwrap_or_else(|why| panic!("{why}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("policy wrote"), "{said}");
}

/// Modelled drive with 8 LUNs and 64 MiB.
const SMALL: &str = "open-channel,drive.media.channels=2,drive.media.ways=4,drive.media.planes=1,\
                     drive.media.multi_plane=false,drive.media.blocks=64,drive.media.pages=16";

#[test]
fn in_process_in_virtual_time() {
    levels(&[]);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn in_process_in_real_time() {
    levels(&[SMALL, "all", "real"]);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_a_file_whose_data_are_found_again() {
    let path = scratch("file").join("flash.img");
    let _ = std::fs::remove_file(&path);
    levels(&[&format!("file:{},size=160MiB", path.display()), "write"]);
    levels(&[&format!("file:{}", path.display()), "check"]);
    let _ = std::fs::remove_file(&path);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_a_block_drive_in_process() {
    let drive =
        "cosmos-plus,drive.media.channels=2,drive.media.ways=2,drive.media.blocks=64,drive.media.pages=32";
    levels(&[drive]);
}

/// Serves a modelled drive over NVMe/TCP while `run` does something with its URI.
fn served(name: &str, sets: &[&str], run: impl FnOnce(&str)) {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let spec = pellucid_spec::load(name, &sets).expect("a description");
    let (tell, told) = mpsc::channel();
    let serving = std::thread::spawn(move || {
        let device = Device::new(&spec.drive).expect("a drive");
        let core = Core::new(vec![("drive".into(), device)], Time::Instant).expect("a core");
        let subsystem = SubsystemConfig {
            nqn: "nqn.2026-01.org.pellucid:drive".into(),
            serial: "1".into(),
            model: "test".into(),
            namespaces: vec![0],
            divided: None,
            hosts: None,
            secrets: BTreeMap::new(),
        };
        let target = Target::new(vec![subsystem]).expect("a target");
        let mut server = Server::new(core, Options::default(), Box::new(|_: &Event| ())).expect("a server");
        let accept = Box::new(move |_, local: Option<SocketAddr>| {
            Ok(Box::new(Connection::new(&target, local.expect("TCP"))) as _)
        });
        let address = server.listen(&"127.0.0.1:0".parse().expect("an address"), "nvme-tcp", accept);
        tell.send((address.expect("a port"), server.stopper())).expect("somebody listens");
        server.run().map(drop)
    });
    let (address, stopper) = told.recv().expect("the server starts");
    let Address::Tcp(address) = address else { panic!("a TCP address") };
    run(&format!("nvme+tcp://{address}"));
    stopper.stop();
    serving.join().expect("the server").expect("stopped");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_a_remote_open_channel_drive_whose_data_are_found_again() {
    let (name, sets) = SMALL.split_once(',').expect("settings");
    let sets: Vec<&str> = sets.split(',').chain(["drive.media.store=ram"]).collect();
    served(name, &sets, |uri| {
        levels(&[uri, "write"]);
        levels(&[uri, "check"]);
    });
}

/// Describes a drive with zones of 512 KiB, 32 of them active.
fn zoned(name: &str) -> String {
    let path = scratch(name).join("zoned.toml");
    let text = "[drive]\npreset = \"open-channel\"\n\
                namespace = [{ interface = \"zoned\", active_max = 32, buffer = \"protected\" }]\n\
                [drive.media]\nchannels = 1\nways = 2\nplanes = 1\nmulti_plane = false\nblocks = 700\npages = 16\n\
                store = \"ram\"\n";
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn on_a_zoned_drive_in_process() {
    levels(&[&zoned("zones")]);
}

#[test]
fn on_a_remote_zoned_drive_whose_data_are_found_again() {
    served(&zoned("remote-zones"), &[], |uri| {
        levels(&[uri, "write"]);
        levels(&[uri, "check"]);
    });
}

#[test]
fn mistakes_get_a_sentence() {
    let Some(program) = example() else { return };
    let missing = Command::new(program).arg("file:/nonexistent/drive").output().expect("it runs");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(
        !missing.status.success() && said.contains("prism_open: unreachable: /nonexistent/drive"),
        "{said}"
    );
    let unknown = Command::new(program).arg("open-chanel").output().expect("it runs");
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("prism_open: invalid") && said.contains("open-channel"), "{said}");
}
