//! Memory of drives that come and go.
//!
//! A sweep or a reproduction builds hundreds of drives one after the other, tens of megabytes each. By default the C library gives
//! what is freed back to the kernel, which fills it with zeros for the next drive: two thirds of the time of such a command. So it keeps it,
//! for all threads together.
//!
//! Tables of more than 128 MiB belong to large drives, which touch a part of them. They come from the kernel each time, which fills in zeros page by page as they are
//! touched; out of kept memory the library would clear them whole.

/// Keeps freed memory for what is built next, up to a GiB. For programs that end by themselves: a server gives it back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_freed() {
    /// As in `malloc.h`.
    const TRIM_THRESHOLD: i32 = -1;
    const MMAP_THRESHOLD: i32 = -3;
    const ARENA_MAX: i32 = -8;
    const KEPT: i32 = 1 << 30;
    const LARGE: i32 = 128 << 20;
    unsafe extern "C" {
        /// Sets a parameter of the allocator; 0 says that it did not.
        safe fn mallopt(parameter: i32, value: i32) -> i32;
    }
    // What is refused stays as it was.
    for (parameter, value) in [(ARENA_MAX, 1), (MMAP_THRESHOLD, LARGE), (TRIM_THRESHOLD, KEPT)] {
        mallopt(parameter, value);
    }
}

/// Nothing: what the allocator does is not known.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed() {}
