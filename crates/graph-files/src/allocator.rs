//! Limit on the freed memory that the allocator keeps.
//!
//! The parser threads allocate chunks of edges, and the thread that writes runs frees them. By default, glibc
//! gives each thread its own arena, and raises its mmap threshold to the size of the largest freed mapping.
//! The parsers' arenas then keep unused chunks while the next phase allocates from another arena: up to a
//! quarter of a limit of 64 MiB, depending on the order of the threads.

/// Makes glibc keep little freed memory: it uses one arena, and mappings for every allocation larger than a
/// few pages, which return to the system at once. The setting applies to the whole process; a program that
/// limits its memory calls this before it starts threads. With another C library, the call has no effect.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a C function")]
fn glibc() {
    const MAPPED_BYTES: libc::c_int = 64 << 10;
    // SAFETY: mallopt reads two numbers, and no other thread exists whose arena it could change. It fails
    // only for numbers out of range; the allocator then stays as it was.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}
