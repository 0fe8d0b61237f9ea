//! The key-value server over real sockets, on a cache in memory.

mod map;

use map::MapCache;
use pellucid_apps::kv::{EngineKind, KvConfig};
use pellucid_serve::kv::{KvService, session};
use pellucid_serve::{Options, Server, Time};

#[test]
#[ignore = "for trying things out by hand"]
fn hold() {
    let config = KvConfig::new(EngineKind::Original);
    let service = KvService::new("map", MapCache::new(1, 1000), &config, Time::Instant);
    let mut server = Server::new(
        service,
        Options { connections_max: 8000, ..Options::default() },
        Box::new(|e| println!("{e}")),
    )
    .unwrap();
    server.listen(&"127.0.0.1:21411".parse().unwrap(), "memcached", Box::new(|_, _| session(None))).unwrap();
    server.run().unwrap();
}
