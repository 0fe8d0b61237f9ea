//! The fuzz targets on stable Rust, without guidance by coverage: good inputs, changed here and there, and any bytes.
//!
//! It keeps the targets compiling and shows that they pass; what guidance finds is found by `make fuzz`.

#[path = "../../../../fuzz/targets/chunks.rs"]
mod chunks;
#[path = "../../../../fuzz/targets/control.rs"]
mod control;
#[path = "../../../../fuzz/targets/fio.rs"]
mod fio;
#[path = "../../../../fuzz/targets/memcached.rs"]
mod memcached;
#[path = "../../../../fuzz/targets/nbd.rs"]
mod nbd;
#[path = "../../../../fuzz/targets/nvme_tcp.rs"]
mod nvme_tcp;
#[path = "../../../../fuzz/targets/session.rs"]
mod session;
#[path = "../../../../fuzz/targets/tls_psk.rs"]
mod tls_psk;
#[path = "../../../../fuzz/targets/toml.rs"]
mod toml;
#[path = "../../../../fuzz/targets/trace.rs"]
mod trace;
#[path = "../../../../fuzz/targets/zones.rs"]
mod zones;

use pellucid_flash::Rng;

/// Inputs of each target: each good one this often, with a few changes.
const CHANGED: u32 = 40;
/// And this many of any bytes.
const RANDOM: u32 = 60;
const BYTES_MAX: u64 = 600;

/// Runs a target. A failure names the input in bytes.
fn works(target: fn(&[u8]), good: &[&[u8]]) {
    let mut rng = Rng::stream(1, "fuzz targets");
    let run = |input: &[u8]| {
        let done = std::panic::catch_unwind(|| target(input));
        assert!(done.is_ok(), "the target fails on {input:?}");
    };
    for good in good {
        run(good);
        for _ in 0..CHANGED {
            let mut input = good.to_vec();
            for _ in 0..=rng.below(4) {
                let at = rng.below(input.len() as u64) as usize;
                match rng.below(4) {
                    0 => input[at] = rng.next_u64() as u8,
                    1 => input.truncate(at + 1),
                    2 => input.insert(at, rng.next_u64() as u8),
                    _ => input.extend_from_within(at..),
                }
            }
            run(&input);
        }
    }
    for _ in 0..RANDOM {
        let input: Vec<u8> = (0..rng.below(BYTES_MAX)).map(|_| rng.next_u64() as u8).collect();
        run(&input);
    }
}

/// A test for each target.
macro_rules! runs {
    ($($name:ident: $good:expr;)*) => {
        mod runs {
            $(
                #[test]
                fn $name() {
                    super::works(super::$name::run, &$good);
                }
            )*
        }
    };
}

runs! {
    chunks: [];
    control: [
        br#"{"do":"status"}"#,
        br#"{"do":"faults","drive":"a","program_fail":0.5}"#,
        br#"{"do":"target-create","drive":"a","name":"b","kind":"raw","first_unit":1,"units":2}"#,
    ];
    fio: [
        b"[global]\nbs=4k\nsize=8m\n[a]\nrw=randrw\nrwmixread=70\niodepth=4\nrandom_distribution=zipf:1.2\n[b]\nrw=read\nbssplit=4k/50:16k/50\n",
    ];
    memcached: [
        b"\x03set key 1 0 5\r\nhello\r\nget key other\r\nincr key 3\r\ndelete key noreply\r\nquit\r\n",
    ];
    nbd: [
        b"\x00\x05\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x03\x00\x00\x00\x00IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x01a",
        b"\x02\x07\x25\x60\x95\x13\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x02\x00",
    ];
    nvme_tcp: [];
    session: [
        b"\x02\x01\x25\x60\x95\x13\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x02\x00",
        b"\x00\x00\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x00",
    ];
    tls_psk: [
        b"NVMe0R01 nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 nqn.2026-01.org.pellucid:fuzz\nNVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
    ];
    toml: [
        b"drive.preset = \"jasmine\"\ndrive.media.blocks = 64\n[[job]]\nrw = \"randread\"\n\0drive.ftl.over_provisioning=0.2",
        b"drive.preset = \"cosmos-plus\"\0media.ways=2\nftl.victim=fifo",
    ];
    trace: [
        b"\xFF\x00\x00128166372003061629,hm,0,Read,9062400,24576,41286\n128166372013261629,hm,0,Write,62400,4096,286\n",
        b"\xFF\x00\x01fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 4096 8192\n/dev/a read 0 4096\n/dev/a close\n",
    ];
    zones: [];
}

#[test]
fn every_target_is_here_and_can_be_run_with_guidance() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let (here, manifest) =
        (include_str!("fuzz.rs"), std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap());
    let mut count = 0;
    for entry in std::fs::read_dir(format!("{folder}/targets")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let own = std::fs::read_to_string(format!("{folder}/fuzz_targets/{name}")).unwrap();
        assert!(own.contains(&format!("\"../targets/{name}\"")), "{name}: {own}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}\"")), "{name} has no [[bin]]");
        assert!(here.contains(&format!("/fuzz/targets/{name}\"")), "{name} has no test");
        count += 1;
    }
    assert_eq!(count, 11);
}
