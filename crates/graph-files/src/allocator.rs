//! What the memory allocator keeps of memory that is given back.
//!
//! Chunks of edges are allocated by the threads that parse, and given back by the one that writes runs. By itself glibc gives each thread an
//! arena of its own, and raises the size from which on an allocation is a mapping to that of the largest one given back. The arenas of the
//! parsers then keep chunks that nobody needs while the next phase allocates in another arena: as much as a quarter of a limit of 64 MiB,
//! depending on the order of the threads.

/// Makes glibc keep little of what is given back: one arena, and mappings that go back to the system at once for all that is larger than
/// a few pages. For the whole process: to be called by a program that counts its memory, before its threads begin. With another C
/// library it does nothing.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a C function")]
fn glibc() {
    const MAPPED_BYTES: libc::c_int = 64 << 10;
    // SAFETY: it reads two numbers, and no thread is there yet whose arena it could change. It only fails for numbers out of range; then
    // the allocator stays as it was.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}
