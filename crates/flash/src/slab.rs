//! Records with stable small numbers, reused, and first-in-first-out lists threaded through them. No allocation in
//! steady state, and cloning is copying. What both sides of the line keep their requests in.

/// "No record."
pub const NIL: u32 = u32::MAX;

/// Numbered records. A released one stays in place, so that the buffers it holds can be used again.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    records: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { records: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Gives the number back. The record stays readable until the number is used again.
    #[inline]
    pub fn release(&mut self, at: u32) {
        self.vacant.push(at);
    }

    /// All records, whether in use or not.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.records.iter_mut()
    }

    /// Like [`Slab::iter_mut`].
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.records.iter()
    }

    /// The records by number, in use or not; to bring one near before it is needed.
    #[inline]
    pub fn records(&self) -> &[T] {
        &self.records
    }

    /// Records in use.
    pub fn in_use(&self) -> usize {
        self.records.len() - self.vacant.len()
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        self.records.clear();
        self.vacant.clear();
    }

    /// Bytes held by the records themselves.
    pub fn memory_bytes(&self) -> u64 {
        (self.records.capacity() * size_of::<T>() + self.vacant.capacity() * 4) as u64
    }
}

impl<T: Default> Slab<T> {
    /// Stores a record and returns its number. The record is constructed in its final place and never copied.
    #[inline]
    pub fn insert(&mut self, record: T) -> u32 {
        let at = self.take();
        self.records[at as usize] = record;
        at
    }

    /// Acts like [`Slab::insert`], for records that are more expensive to make than to move.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce() -> T) -> u32 {
        let at = self.take();
        self.records[at as usize] = make();
        at
    }

    /// The number of a record that is not in use, as its last user left it.
    #[inline]
    pub fn take(&mut self) -> u32 {
        match self.vacant.pop() {
            Some(at) => at,
            None => self.grow(),
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.records.push(T::default());
        self.records.len() as u32 - 1
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

/// A record that can stand in a [`List`].
pub trait Linked {
    /// The place for the number of the next record.
    fn next(&mut self) -> &mut u32;
}

/// A first-in-first-out list of records of one slab.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List::EMPTY
    }
}

impl List {
    /// No records.
    pub const EMPTY: List = List { head: NIL, tail: NIL };

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// Returns whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Puts a record last.
    #[inline]
    pub fn push_back<T: Linked>(&mut self, slab: &mut Slab<T>, at: u32) {
        *slab[at].next() = NIL;
        if self.head == NIL {
            self.head = at;
        } else {
            *slab[self.tail].next() = at;
        }
        self.tail = at;
    }

    /// Puts a record first.
    #[inline]
    pub fn push_front<T: Linked>(&mut self, slab: &mut Slab<T>, at: u32) {
        *slab[at].next() = self.head;
        if self.head == NIL {
            self.tail = at;
        }
        self.head = at;
    }

    /// Takes the first.
    #[inline]
    pub fn pop<T: Linked>(&mut self, slab: &mut Slab<T>) -> Option<u32> {
        if self.head == NIL {
            return None;
        }
        let at = self.head;
        self.head = *slab[at].next();
        Some(at)
    }

    /// Calls `f` for every record.
    #[inline]
    pub fn for_each<T: Linked>(&self, slab: &mut Slab<T>, mut f: impl FnMut(&mut T)) {
        let mut at = self.head;
        while at != NIL {
            f(&mut slab[at]);
            at = *slab[at].next();
        }
    }

    /// Takes the whole list.
    #[inline]
    pub fn take(&mut self) -> List {
        std::mem::take(self)
    }
}
