//! The key-value cache as it is typed: all engines, a Unix socket, a warm restart, wrong values, traces.

use crate::common::{Folder, Serving, eventually};
use pellucid_flash::Rng;
use std::io::{Read, Write};
use std::net::TcpStream;
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

/// Sends `command`; its answer, which ends with `end`.
fn ask(client: &mut UnixStream, command: &str, end: &str) -> String {
    client.write_all(command.as_bytes()).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 16 << 10]);
    while !answer.ends_with(end.as_bytes()) {
        let bytes = client.read(&mut part).unwrap();
        assert!(bytes > 0, "the connection ended after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..bytes]);
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
        (&["--set", "kv.slot_min=1"], "kv.slot_min"),
        (&["--set", "kv.engine=raw", "--set", "kv.slab=250MiB"], "kv.slab = 250MiB"),
        (
            &["--set", "kv.engine=raw", "--set", "kv.capacity=1TiB"],
            "kv.capacity = 1TiB: allowed: 0 (all there is) to 8MiB",
        ),
        (&["--engine", "raw", "--memory", "500GiB"], "kv.memory = 500GiB: allowed: up to 64MiB"),
        (&["--engine", "raw", "--set", "media.store=file:x,size=1GiB"], "the geometry says"),
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

#[test]
fn a_trace_without_requests_is_no_success() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    for (text, more) in [
        ("", &[][..]),
        ("", &["--format", "cachelib"]),
        ("\n\n", &[]),
        ("key,op,size,op_count,key_size\n", &[]),
        ("key,op,size\n\n", &["--json"]),
    ] {
        folder.write("trace.csv", text);
        let words = ["kv", "replay", "trace.csv", "--drive", "cache.toml", "--set", "kv.engine=raw"];
        let done = folder.run(&[&words[..], more].concat());
        assert_eq!(done.status, 2, "{text:?} {more:?}: {}", done.stderr);
        assert!(
            done.stderr.contains("trace.csv: it has no requests, so nothing was replayed"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn repeats_of_a_line_do_not_run_side_by_side() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    folder.write(
        "trace.csv",
        "key,op,size,op_count,key_size\n1,SET,82,1,40\n1,GET,0,3,40\n2,GET,104,1,64\n2,GET,104,4,64\n",
    );
    let report = folder
        .run(&["kv", "replay", "trace.csv", "--drive", "cache.toml", "--engine", "raw", "--json"])
        .json();
    let operations = &report["summary"]["operations"];
    assert_eq!(
        (operations["hit"]["count"].as_u64(), operations["miss"]["count"].as_u64()),
        (Some(7), Some(1)),
        "{report}"
    );
    // There is no database, so nobody asks one.
    assert_eq!(operations["query"]["count"].as_u64(), Some(0), "{report}");
    assert_eq!(operations["fill"]["count"].as_u64(), Some(1), "{report}");
}

/// Sends a meta command, whose answer is to be this.
fn says(client: &mut UnixStream, command: &str, expected: &str) {
    let answer = ask(client, &format!("{command}\r\nmn\r\n"), "MN\r\n");
    let end = if expected.is_empty() { "MN\r\n" } else { "\r\nMN\r\n" };
    assert_eq!(answer, format!("{expected}{end}"), "{command}");
}

/// memcached 1.6: what is stale keeps its TTL; a key that was stored in base64 is shown so; `x` removes the value and leaves the item.
#[test]
fn meta_commands_say_what_memcached_says() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    let _server =
        Serving::new(&folder, "exec \"$0\" kv cache.toml --engine raw --unix socket --time instant");
    eventually("the cache listens", || UnixStream::connect(folder.path("socket")).is_ok());
    let mut client = UnixStream::connect(folder.path("socket")).unwrap();
    says(&mut client, "ms foo 2 T100 F1\r\nab", "HD");
    says(&mut client, "ms foo 3 T5000 C1 I F2\r\nabc", "HD");
    let left = |answer: &str| answer.contains(" t100") || answer.contains(" t99") || answer.contains(" t98");
    let answer = ask(&mut client, "mg foo t v f\r\nmn\r\n", "MN\r\n");
    assert!(left(&answer) && answer.ends_with(" f2 X W\r\nabc\r\nMN\r\n"), "{answer}");
    // "foo" is Zm9v, "bar" is YmFy, "new" is bmV3, "num" is bnVt.
    says(&mut client, "ms YmFy 2 b k\r\nxy", "HD kYmFy b");
    says(&mut client, "mg bar k v", "VA 2 kYmFy b\r\nxy");
    says(&mut client, "mg YmFy b k s", "HD kYmFy b s2");
    says(&mut client, "mg Zm9v b k", "HD kfoo Z X");
    says(&mut client, "mg bm8= b k", "EN kbm8= b");
    says(&mut client, "mg bmV3 b k N30", "HD kbmV3 b W");
    says(&mut client, "mg new k", "HD kbmV3 b Z");
    says(&mut client, "ms bar 1 MA k\r\nz", "HD kbar");
    says(&mut client, "mg bar k v", "VA 3 kYmFy b\r\nxyz");
    says(&mut client, "ma bnVt b N0 J7 v", "VA 1\r\n7");
    says(&mut client, "ma num v", "VA 1\r\n8");
    says(&mut client, "mg num k", "HD kbnVt b");
    let answer = ask(&mut client, "me bar\r\nmn\r\n", "MN\r\n");
    assert!(answer.starts_with("ME YmFy exp=-1 "), "{answer}");
    says(&mut client, "md no x", "NF");
    says(&mut client, "ms k 3 T100 F5\r\nabc", "HD");
    says(&mut client, "md k x C1", "EX");
    says(&mut client, "md k x", "HD");
    says(&mut client, "mg k v f t s", "VA 0 f0 t-1 s0\r\n");
    says(&mut client, "ms k 3 F5\r\nabc", "HD");
    says(&mut client, "md k x q I k Oabc", "");
    says(&mut client, "mg k v f", "VA 0 f0 X W\r\n");
    says(&mut client, "md k x x", "CLIENT_ERROR invalid or duplicate flag");
}

/// Starts a server with its data in a file, and a client of it.
fn start_in_a_file(folder: &Folder) -> (Serving, UnixStream) {
    let _ = std::fs::remove_file(folder.path("socket"));
    let script = "exec \"$0\" kv cache.toml --engine raw --memory 256KiB --unix socket --control control --monitor 127.0.0.1:0 \
                  --set media.store=file:media --set kv.warm_restart=true";
    let server = Serving::new(folder, script);
    eventually("the cache listens", || UnixStream::connect(folder.path("socket")).is_ok());
    let client = UnixStream::connect(folder.path("socket")).unwrap();
    (server, client)
}

/// The version of each key that is stored.
type Versions = std::collections::BTreeMap<u64, u64>;

fn value_of(key: u64, version: u64) -> String {
    format!("{key}:{version}:{}", "v".repeat(1000))
}

/// Stores, removes and reads: what is read is the newest, or nothing. How many were found.
fn mixed_load(client: &mut UnixStream, rng: &mut Rng, versions: &mut Versions, steps: u32) -> u32 {
    let mut hits = 0;
    for _ in 0..steps {
        let key = rng.below(200);
        match rng.below(5) {
            0 | 1 => {
                let version = rng.next_u64();
                let value = value_of(key, version);
                let command = format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
                assert_eq!(ask(client, &command, "\r\n"), "STORED\r\n");
                versions.insert(key, version);
            }
            2 => {
                ask(client, &format!("delete k{key}\r\n"), "\r\n");
                versions.remove(&key);
            }
            _ => hits += u32::from(is_newest(client, versions, key)),
        }
    }
    hits
}

/// Returns whether a key is found; checks that its value is then the newest.
fn is_newest(client: &mut UnixStream, versions: &Versions, key: u64) -> bool {
    let got = ask(client, &format!("get k{key}\r\n"), "END\r\n");
    if got == "END\r\n" {
        return false;
    }
    let version = versions.get(&key).unwrap_or_else(|| panic!("k{key} was removed: {got}"));
    let value = value_of(key, *version);
    assert_eq!(got, format!("VALUE k{key} 0 {}\r\n{value}\r\nEND\r\n", value.len()));
    true
}

/// Killed or stopped, and started again: a value is never another or an older one, and after a good stop everything is there.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn kills_and_stops_under_load_bring_no_older_value_back() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    let (mut rng, mut versions) = (Rng::new(20), Versions::new());
    for round in 0..6 {
        let (mut server, mut client) = start_in_a_file(&folder);
        let found = (0..200).filter(|&key| is_newest(&mut client, &versions, key)).count();
        // The log has a thread of its own.
        let started = format!("event=cache-started cache=\"cache\" items={found}");
        eventually("the start is logged", || {
            std::fs::read_to_string(folder.path("log")).unwrap().contains(&started)
        });
        let is_warm = round % 2 == 1;
        assert_eq!(found > 0, is_warm, "round {round}: {found}");
        mixed_load(&mut client, &mut rng, &mut versions, 1500);
        match round % 2 {
            0 => {
                drop(client);
                let mut control = UnixStream::connect(folder.path("control")).unwrap();
                control.write_all(b"{\"do\":\"stop\"}\n").unwrap();
                server.wait();
            }
            // SIGKILL.
            _ => drop(server),
        }
    }
}

/// A monitor and the control socket show a cache; faults and power cuts reach its drive, and cost no more than the cached values.
#[test]
fn a_cache_is_watched_and_broken_as_a_drive_is() {
    let folder = Folder::new();
    folder.write("cache.toml", FLASH);
    let (_server, mut client) = start_in_a_file(&folder);
    let (mut rng, mut versions) = (Rng::new(4), Versions::new());
    assert!(mixed_load(&mut client, &mut rng, &mut versions, 500) > 0);

    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    let monitor =
        log.split("uri=\"http://").nth(1).and_then(|rest| rest.split('/').next()).expect("its address");
    let mut page = TcpStream::connect(monitor).unwrap();
    page.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    page.read_to_string(&mut metrics).unwrap();
    for name in ["kv_hits", "kv_sets", "kv_evicted", "kv_flash_written_bytes", "get_p99_ns"] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }

    let status = folder.run(&["status", "--control", "control", "--json"]).json();
    let figures = folder.run(&["top", "--control", "control", "--json"]).json();
    assert!(figures["drives"].is_array(), "{figures}");
    assert_eq!(status["cache"]["engine"], "raw");
    assert!(status["figures"]["kv_sets"].as_u64() > Some(0), "{status}");
    let broken = folder.run(&["fault", "--control", "control", "--kill-die", "1"]);
    assert_eq!(broken.status, 0, "{}", broken.stderr);
    mixed_load(&mut client, &mut rng, &mut versions, 500);
    let cut = folder.run(&["power-cut", "--control", "control"]);
    assert_eq!(cut.status, 0, "{}", cut.stderr);
    mixed_load(&mut client, &mut rng, &mut versions, 500);
    let wrong = folder.run(&["power-cut", "--control", "control", "--drive", "other"]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("allowed: cache"), "{}", wrong.stderr);
}

/// Stores what the write buffers do not hold, three times what the flash holds, and reads it: each value is the newest, or none. How many were
/// found.
fn fills_and_finds(client: &mut UnixStream, sets: u64) -> usize {
    let value = |key: u64| format!("{key}:{}", "v".repeat(8000));
    for key in 0..sets {
        let value = value(key);
        let command = format!("set key{key} 7 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(ask(client, &command, "\r\n"), "STORED\r\n");
    }
    finds(client, sets)
}

fn finds(client: &mut UnixStream, sets: u64) -> usize {
    let is_there = |key: &u64| {
        let value = format!("{key}:{}", "v".repeat(8000));
        let got = ask(client, &format!("get key{key}\r\n"), "END\r\n");
        assert!(got == "END\r\n" || got == format!("VALUE key{key} 7 {}\r\n{value}\r\nEND\r\n", value.len()));
        got != "END\r\n"
    };
    (0..sets).filter(is_there).count()
}

/// A cache in `folder` on a drive that is not modelled there.
fn start_on(folder: &Folder, drive: &str, engine: &str) -> (Serving, UnixStream) {
    let _ = std::fs::remove_file(folder.path("socket"));
    let script = format!(
        "exec \"$0\" kv {drive} --engine {engine} --memory 1MiB --unix socket --control control --set kv.item_max=16KiB \
         --set kv.warm_restart=true"
    );
    let server = Serving::new(folder, &script);
    eventually("the cache listens", || UnixStream::connect(folder.path("socket")).is_ok());
    let client = UnixStream::connect(folder.path("socket")).unwrap();
    (server, client)
}

fn stop(folder: &Folder, server: &mut Serving) {
    let mut control = UnixStream::connect(folder.path("control")).unwrap();
    control.write_all(b"{\"do\":\"stop\"}\n").unwrap();
    server.wait();
}

/// The plainest back end: every engine on a file of 16 MiB, filled three times over, stopped, and found again.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn every_engine_stands_on_a_plain_file() {
    for engine in ["original", "policy", "function", "raw", "direct"] {
        let folder = Folder::new();
        let (mut server, mut client) = start_on(&folder, "file:cache.img,size=16MiB", engine);
        let found = fills_and_finds(&mut client, 6000);
        assert!((200..2100).contains(&found), "{engine}: {found}");
        drop(client);
        stop(&folder, &mut server);
        let (_server, mut client) = start_on(&folder, "file:cache.img", engine);
        let again = finds(&mut client, 6000);
        assert!(again * 2 > found, "{engine}: {again} of {found} after a good stop");
    }
}

/// The library's levels over NVMe/TCP, on chunks and on zones.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cache_stands_on_a_remote_drive() {
    for (interface, engine) in [("open-channel", "raw"), ("open-channel", "direct"), ("zoned", "function")] {
        let folder = Folder::new();
        folder.write("remote.toml", &FLASH.replace("open-channel", interface));
        let _drive =
            Serving::new(&folder, "exec \"$0\" serve remote.toml --nvme-tcp 127.0.0.1:0 --time instant");
        let mut address = String::new();
        eventually("the drive listens", || {
            let log = std::fs::read_to_string(folder.path("log")).unwrap_or_default();
            let uri = log.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
            address = uri.unwrap_or_default().trim_matches('"').to_owned();
            !address.is_empty()
        });
        let (mut server, mut client) = start_on(&folder, &format!("nvme+tcp://{address}"), engine);
        let found = fills_and_finds(&mut client, 2000);
        assert!((100..1000).contains(&found), "{interface}, {engine}: {found}");
        drop(client);
        stop(&folder, &mut server);
    }
}

#[test]
fn what_a_file_or_remote_drive_cannot_be_told_is_refused() {
    let folder = Folder::new();
    let refused = |words: &[&str], what: &str| {
        let done = folder.run(&[&["kv"], words].concat());
        assert!(done.status != 0 && done.stderr.contains(what), "{words:?}: {}", done.stderr);
    };
    refused(&["file:none.img"], "none.img");
    refused(
        &["file:new.img,size=16MiB", "--set", "media.store=ram"],
        "--set media.store=ram: without effect",
    );
    refused(&["nvme+tcp://host"], "nvme+tcp:// and HOST:PORT");
    refused(&["nvme+tcp://127.0.0.1:1"], "127.0.0.1:1");
    std::fs::write(folder.path("other.img"), vec![1; 16 << 20]).unwrap();
    refused(&["file:other.img", "--engine", "raw"], "holds something else than chunks");
}

/// Writes that no client waited for may still be in the drive at the end: the text says so.
#[test]
fn writes_that_are_not_programmed_at_the_end_are_told() {
    let folder = Folder::new();
    let block = FLASH.replace("open-channel", "block");
    folder.write("cache.toml", &format!("{block}[drive.ftl]\nover_provisioning = 0.4\n"));
    let line = |i: u32| format!("{i},key{i:06},9,4000,1,set,0\n");
    folder.write("sets.csv", &(0..300).map(line).collect::<String>());
    let words = ["kv", "replay", "sets.csv", "--drive", "cache.toml", "--engine", "original"];
    let text = folder.run(&words).answer();
    assert!(text.contains("in no simulated time"), "{text}");
    let writes = text.lines().find(|line| line.starts_with("flash writes")).unwrap();
    assert!(writes.contains("not programmed yet at the end"), "{text}");
}
