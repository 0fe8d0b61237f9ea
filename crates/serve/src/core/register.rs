//! Register: the drives' names, their namespaces, and the operations that each namespace has had.
//!
//! ```text
//!  reserve: hidden ─► shown ─► hidden ─► vacant, once nobody holds it ─► reserved again
//! ```
//! Invariants: each namespace has its counter; a namespace number is not reused while a connection holds it.

use pellucid_target::operation::Namespace;

/// Number of a target that is gone, on its drive.
const NO_NUMBER: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Operations {
    /// Operations submitted so far.
    had: u64,
    /// Number of the operation with which the next planned fault strikes.
    strike: u64,
}

impl Operations {
    const NONE: Operations = Operations { had: 0, strike: u64::MAX };
}

/// Drives and their namespaces.
pub(super) struct Register {
    namespaces: Vec<Namespace>,
    /// Names of the drives.
    names: Vec<String>,
    /// Operation counters of each namespace.
    operations: Vec<Operations>,
}

impl Register {
    pub fn new(namespaces: Vec<Namespace>, names: Vec<String>) -> Register {
        let operations = vec![Operations::NONE; namespaces.len()];
        Register { namespaces, names, operations }
    }

    // ---- drives

    /// Names of the drives, in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn name(&self, drive: usize) -> &str {
        &self.names[drive]
    }

    /// Drive with this name.
    pub fn drive(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|drive| drive == name)
    }

    /// Drive of a request, by the name of a namespace or of the drive itself.
    pub fn drive_named(&self, name: Option<&str>) -> Result<usize, String> {
        match name.and_then(|name| self.drive(name)) {
            Some(drive) => Ok(drive),
            // A drive without a namespace, as before its first application.
            None if name.is_none() && self.names.len() == 1 => Ok(0),
            None => Ok(self.namespaces[self.namespace_named(name)?].drive),
        }
    }

    // ---- namespaces

    /// All namespaces, in the order of their numbers.
    #[inline]
    pub fn all(&self) -> &[Namespace] {
        &self.namespaces
    }

    #[inline]
    pub fn get(&self, namespace: usize) -> &Namespace {
        &self.namespaces[namespace]
    }

    /// Namespaces that are shown.
    pub fn present(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(|namespace| !namespace.gone)
    }

    /// Namespace with this number on a drive.
    pub fn on_drive(&self, drive: usize, number: u16) -> Option<usize> {
        self.namespaces.iter().position(|n| n.drive == drive && n.number == number)
    }

    /// Namespace of a request, by its own name, or the first one of the drive with this name. Without a name
    /// there must be only one drive, so that damage does not hit an arbitrary one.
    pub fn namespace_named(&self, name: Option<&str>) -> Result<usize, String> {
        let there = || self.namespaces.iter().enumerate().filter(|(_, namespace)| !namespace.gone);
        let names = || there().map(|(_, namespace)| namespace.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(name) = name else {
            let Some((first, of_first)) = there().next() else {
                return Err("drive: none has a namespace yet; allowed: pellucid apps allocate".into());
            };
            let one = there().all(|(_, namespace)| namespace.drive == of_first.drive);
            let several = || format!("drive: there are several; allowed: one of {}", names());
            return if one { Ok(first) } else { Err(several()) };
        };
        let drive = self.drive(name);
        let found = there().find(|(_, namespace)| namespace.name == name);
        let found = found.or_else(|| there().find(|(_, namespace)| Some(namespace.drive) == drive));
        found.map(|(index, _)| index).ok_or_else(|| format!("drive: {name:?}; allowed: {}", names()))
    }

    /// Reserves a place for a hidden namespace: a vacant one, or a new one.
    pub fn reserve(&mut self, namespace: Namespace, is_held: impl Fn(usize) -> bool) -> usize {
        assert!(namespace.gone, "a namespace is reserved before it is shown");
        let is_vacant = |(at, n): (usize, &Namespace)| n.gone && n.number == NO_NUMBER && !is_held(at);
        let vacant = self.namespaces.iter().enumerate().position(is_vacant);
        match vacant {
            Some(at) => {
                (self.namespaces[at], self.operations[at]) = (namespace, Operations::NONE);
                at
            }
            None => {
                self.namespaces.push(namespace);
                self.operations.push(Operations::NONE);
                assert_eq!(self.namespaces.len(), self.operations.len(), "each namespace has its counter");
                self.namespaces.len() - 1
            }
        }
    }

    pub fn show(&mut self, namespace: usize) {
        self.namespaces[namespace].gone = false;
    }

    /// Hides a namespace whose target is being removed.
    pub fn hide(&mut self, namespace: usize) {
        self.namespaces[namespace].gone = true;
    }

    /// Gives up the namespace of a target that is gone.
    pub fn give_up(&mut self, namespace: usize) {
        (self.namespaces[namespace].gone, self.namespaces[namespace].number) = (true, NO_NUMBER);
    }

    // ---- operations

    /// Operations that a namespace has had.
    pub fn operations(&self, namespace: usize) -> u64 {
        self.operations[namespace].had
    }

    /// Counts an operation; returns its number if a planned fault strikes with it.
    #[inline]
    pub fn count(&mut self, namespace: usize) -> Option<u64> {
        let count = &mut self.operations[namespace];
        count.had += 1;
        (count.had == count.strike).then_some(count.had)
    }

    /// Sets the operation of each namespace with which the next planned fault strikes.
    pub fn set_strikes(&mut self, next: impl Fn(usize) -> u64) {
        for (namespace, count) in self.operations.iter_mut().enumerate() {
            count.strike = next(namespace);
        }
    }
}
