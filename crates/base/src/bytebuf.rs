//! Real bytes that a reactor and its worker threads share without copying. The unsafe code of this crate is here, and where `payload` reaches into a buffer.
//!
//! A buffer is aligned to 4096 bytes, so that a file opened with O_DIRECT takes it. Several readers may use it at once;
//! a writer is alone. Nobody checks this at run time: the machine contract says that a payload has one writer (the leaf
//! that serves the read, or the machine that fills its own metadata) and that nobody reads it before that is done.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::sync::Arc;

/// Alignment of every buffer in bytes.
pub const ALIGN: usize = 4096;

/// An aligned block of bytes.
pub struct ByteBuf {
    start: *mut u8,
    len: usize,
}

// SAFETY: the block is plain memory owned by this value; access rules are stated on `slice` and `slice_mut`.
unsafe impl Send for ByteBuf {}
// SAFETY: as above.
unsafe impl Sync for ByteBuf {}

impl ByteBuf {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1).next_multiple_of(ALIGN), ALIGN)
            .expect("a buffer fits the address space")
    }

    /// A block of `len` zeros.
    pub fn zeroed(len: usize) -> ByteBuf {
        let layout = Self::layout(len);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        ByteBuf { start, len: layout.size() }
    }

    /// Bytes that fit.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing fits; never the case.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Part of the block. Panics when it does not lie inside.
    ///
    /// # Safety
    /// Nobody may write this part while the slice lives.
    pub unsafe fn slice(&self, at: usize, len: usize) -> &[u8] {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len),
            "{at}+{len} leaves a buffer of {}",
            self.len
        );
        // SAFETY: inside the block, initialised at allocation; the caller keeps writers out.
        unsafe { std::slice::from_raw_parts(self.start.add(at), len) }
    }

    /// Part of the block, to change. Panics when it does not lie inside.
    ///
    /// # Safety
    /// Nobody else may use this part while the slice lives.
    #[allow(clippy::mut_from_ref)] // shared memory with the access rule of this module
    pub unsafe fn slice_mut(&self, at: usize, len: usize) -> &mut [u8] {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len),
            "{at}+{len} leaves a buffer of {}",
            self.len
        );
        // SAFETY: inside the block, initialised at allocation; the caller keeps all others out.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

impl AsMut<[u8]> for ByteBuf {
    /// All of the block, to change, for who has it alone.
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: inside the block, initialised at allocation; nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for ByteBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with the layout of this length.
        unsafe { dealloc(self.start, Self::layout(self.len)) }
    }
}

impl fmt::Debug for ByteBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteBuf({} bytes)", self.len)
    }
}

/// Part of a buffer that keeps the buffer alive; may cross threads.
#[derive(Clone, Debug)]
pub struct ByteRegion {
    buffer: Arc<ByteBuf>,
    at: usize,
    len: usize,
}

impl ByteRegion {
    pub(crate) fn new(buffer: Arc<ByteBuf>, at: usize, len: usize) -> ByteRegion {
        assert!(at + len <= buffer.len(), "{at}+{len} leaves a buffer of {}", buffer.len());
        ByteRegion { buffer, at, len }
    }

    /// Bytes in the region.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the region is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    ///
    /// # Safety
    /// Nobody may write the region while the slice lives.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: passed on to the caller.
        unsafe { self.buffer.slice(self.at, self.len) }
    }

    /// The bytes, to change.
    ///
    /// # Safety
    /// Nobody else may use the region while the slice lives.
    #[allow(clippy::mut_from_ref)] // shared memory with the access rule of this module
    pub unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: passed on to the caller.
        unsafe { self.buffer.slice_mut(self.at, self.len) }
    }
}
