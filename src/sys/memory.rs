//! The allocator of a process that lives long and handles blobs of all sizes.

/// Makes glibc give freed memory back to the kernel: pieces from 1 MiB on at once, the rest when
/// 2 MiB at the end of a heap are free, and few heaps. Without it the first freed large blob raises
/// the first bound to 32 MiB, and after reading Linux's source the daemon held 150 MB instead of
/// 60. Does nothing with other C libraries.
pub fn give_freed_memory_back() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [
        (libc::M_MMAP_THRESHOLD, 1 << 20),
        (libc::M_TRIM_THRESHOLD, 2 << 20),
        (libc::M_ARENA_MAX, 4),
    ] {
        #[expect(unsafe_code, reason = "rustix has no allocator settings")]
        // SAFETY: mallopt takes two integers, and may be called at any time by any thread.
        unsafe {
            libc::mallopt(what, value);
        }
    }
}
