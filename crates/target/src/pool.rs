//! Reusable buffers, so that a request in steady state allocates nothing.
//!
//! Invariant: a buffer in bin b has a capacity of at least `2^b` bytes and keeps its maximum length, so
//! reusing it with the same length writes nothing.

/// Longer buffers are not kept: fresh ones cost no memory until they are written to.
const KEPT_BYTES_MAX: usize = 256 << 10;
const BINS: usize = KEPT_BYTES_MAX.trailing_zeros() as usize + 1;
/// Maximum bytes kept in one bin.
const BIN_BYTES_MAX: usize = 8 << 20;

/// A pool of byte buffers.
#[derive(Debug)]
pub struct Pool {
    bins: [Vec<Vec<u8>>; BINS],
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { bins: std::array::from_fn(|_| Vec::new()) }
    }
}

impl Pool {
    /// Takes a buffer of `length` bytes with unspecified content.
    #[inline]
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        if length == 0 || length > KEPT_BYTES_MAX {
            return vec![0; length];
        }
        let bin = length.next_power_of_two().trailing_zeros() as usize;
        match self.bins[bin].pop() {
            Some(mut buffer) => {
                if buffer.len() != length {
                    buffer.resize(length, 0);
                }
                buffer
            }
            None => {
                let mut buffer = Vec::with_capacity(1 << bin);
                buffer.resize(length, 0);
                buffer
            }
        }
    }

    /// Returns a buffer to the pool.
    #[inline]
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity == 0 || capacity > KEPT_BYTES_MAX {
            return;
        }
        let bin = capacity.ilog2() as usize;
        if (self.bins[bin].len() << bin) < BIN_BYTES_MAX {
            self.bins[bin].push(buffer);
        }
    }
}
