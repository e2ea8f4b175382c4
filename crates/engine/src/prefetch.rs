//! The one place with `unsafe`: a hint to the processor, without which every room touched is a full memory miss.

/// Asks for the cache line that holds the start of `items[at]`; nothing happens if there is no such item.
#[inline(always)]
#[allow(unsafe_code)] // The intrinsic is an unsafe function; a prefetch neither reads nor writes, and the place exists.
pub fn prefetch<T>(items: &[T], at: usize) {
    if let Some(item) = items.get(at) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the pointer comes from a reference, and the instruction is part of every x86-64 processor.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = item;
    }
}

/// Asks for every cache line of `items[at]`.
#[inline(always)]
pub fn prefetch_whole<T>(items: &[T], at: usize) {
    if let Some(item) = items.get(at) {
        let bytes = size_of::<T>();
        let lines: &[T] = std::slice::from_ref(item);
        prefetch(lines, 0);
        // The last byte's line, and those between.
        let mut line = 64;
        while line < bytes + 63 {
            ask(item, line.min(bytes.saturating_sub(1)));
            line += 64;
        }
    }
}

/// Asks for the cache line that holds a byte of `item`.
#[inline(always)]
#[allow(unsafe_code)] // As above.
fn ask<T>(item: &T, byte: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the pointer comes from a reference and stays within what it refers to.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>().add(byte));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (item, byte);
}
