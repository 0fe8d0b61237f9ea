//! The layers of the host, on reference drives that keep the rules of open-channel and zoned drives and panic
//! when they are broken.

mod block_chunks;
mod block_layer;
mod block_reference;
mod cache;
mod cluster_buffer;
mod crash;
mod key_value;
mod model;
mod nameless;
mod nameless_file;
mod oracle;
mod reference;
mod shared;
mod stack;
mod stub;
mod zone_log;
mod zone_reference;
