//! Records with stable small numbers, reused: no allocation in steady state, and cloning is copying.

/// Numbered records. A released record stays in place, so that the buffers it holds are used again.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    records: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { records: Vec::new(), vacant: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// A record that is not in use, as its last user left it.
    #[inline]
    pub fn take(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.records.push(T::default());
            self.records.len() as u32 - 1
        })
    }

    /// Gives the number back.
    #[inline]
    pub fn release(&mut self, at: u32) {
        self.vacant.push(at);
    }

    /// All records, in use or not.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.records.iter_mut()
    }

    /// Bytes held by the records themselves.
    pub fn memory_bytes(&self) -> u64 {
        (self.records.capacity() * size_of::<T>() + self.vacant.capacity() * 4) as u64
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: u32) -> &T {
        &self.records[at as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.records[at as usize]
    }
}
