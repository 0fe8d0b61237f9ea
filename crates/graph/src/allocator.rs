//! What the memory allocator keeps of memory that is given back.
//!
//! Chunks of edges are allocated by the threads that parse, and given back by the one that writes runs. glibc gives each thread an arena of
//! its own, and raises the size from which on an allocation is a mapping to that of the largest one given back. So the arenas of the
//! parsers kept chunks that nobody needed any more while the next phase allocated in another arena: up to 16 MiB of a limit of 64, and how
//! much hung on the order of the threads.

/// From now on allocations of this size are mappings of their own, which go back to the system at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 64 << 10;

/// Makes glibc keep little of what is given back. For the whole process: to be called by a program that counts its memory, before its
/// threads begin. With another C library it does nothing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a C function")]
pub fn keep_little() {
    // SAFETY: it reads two numbers, and no thread is there yet whose arena it could change. It only fails for numbers out of range; then
    // the allocator stays as it was.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_little() {}
