//! The key-value cache as it is typed: all engines, a Unix socket, a warm restart, wrong values, traces.

use crate::common::{Folder, Serving, eventually};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// 8 MiB of flash.
const FLASH: &str = r#"
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 32
pages = 16
page_size = "4KiB"
spare_size = 128
sector_size = 512
unit_size = "4KiB"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "20us"
program = "200us"
erase = "1ms"
channel_rate = "400MB/s"
[[drive.namespace]]
interface = "open-channel"
[kv]
item_max = "16KiB"
"#;

/// Sends `command`; the answer up to and with `end`.
fn ask(client: &mut UnixStream, command: &str, end: &str) -> String {
    client.write_all(command.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn every_engine_serves_a_unix_socket() {
    for engine in ["original", "policy", "function", "raw", "direct"] {
        let folder = Folder::new();
        let flash = match engine {
            "original" => {
                format!("{}[drive.ftl]\nover_provisioning = 0.4\n", FLASH.replace("open-channel", "block"))
            }
            _ => FLASH.to_string(),
        };
        folder.write("cache.toml", &flash);
        let script = format!(
            "exec \"$0\" kv cache.toml --engine {engine} --memory 256KiB --unix socket --time instant"
        );
        let _server = Serving::new(&folder, &script);
        eventually("the cache listens", || UnixStream::connect(folder.path("socket")).is_ok());
        let mut client = UnixStream::connect(folder.path("socket")).unwrap();
        let value = "v".repeat(4000);
        for i in 0..400 {
            let stored = ask(&mut client, &format!("set key{i} {i} 0 4000\r\n{value}\r\n"), "\r\n");
            assert_eq!(stored, "STORED\r\n", "{engine}");
        }
        // The first ones have left the buffers in memory.
        for i in [0, 1, 399] {
            let got = ask(&mut client, &format!("get key{i}\r\n"), "END\r\n");
            assert_eq!(got, format!("VALUE key{i} {i} 4000\r\n{value}\r\nEND\r\n"), "{engine}");
        }
        assert_eq!(ask(&mut client, "get nokey\r\n", "END\r\n"), "END\r\n");
        let stats = ask(&mut client, "stats\r\n", "END\r\n");
        assert!(stats.contains("STAT cmd_set 400\r\n") && stats.contains("STAT get_misses 1\r\n"), "{stats}");
    }
}

#[test]
fn a_wrong_engine_or_size_is_refused_in_a_sentence() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    for (words, part) in [
        (&["--engine", "flat"][..], "original"),
        (&["--memory", "1KiB"], "memory"),
        (&["--engine", "original"], "block"),
        (&["--set", "kv.enigne=raw"], "did you mean engine?"),
        (&["--listen", "0.0.0.0:0"], "--open"),
        (&["--listen", "nowhere"], "nowhere"),
    ] {
        let done = folder.run(&[&["kv", "cache.toml"], words].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(part), "{words:?}: {}", done.stderr);
        assert!(done.stderr.lines().count() <= 3, "{}", done.stderr);
    }
    let done = folder.run(&["kv"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn a_trace_is_replayed_and_a_malformed_line_is_named() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    let line = |i: u64| {
        let op = if i.is_multiple_of(3) { "set" } else { "get" };
        format!("{i},key{},8,300,1,{op},0\n", i % 50)
    };
    folder.write("trace.csv", &(0..600).map(line).collect::<String>());
    let replay = [
        "kv",
        "replay",
        "trace.csv",
        "--drive",
        "cache.toml",
        "--format",
        "twitter",
        "--set",
        "kv.engine=raw",
        "--json",
    ];
    let report = folder.run(&replay).json();
    assert_eq!(report, folder.run(&replay).json(), "two equal runs");
    assert!(report.to_string().contains("hit"), "{report}");
    folder.write("bad.csv", "0,key,3,300,1,get,0\n1,key,3,three,1,get,0\n");
    let done = folder.run(&["kv", "replay", "bad.csv", "--drive", "cache.toml", "--set", "kv.engine=raw"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("bad.csv: line 2: value size is \"three\""), "{}", done.stderr);
}
