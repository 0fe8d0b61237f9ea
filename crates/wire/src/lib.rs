//! Wire formats of the protocols that real hosts speak: codecs only, pure and fuzzed.
