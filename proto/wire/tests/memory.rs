//! What hostile bytes can make a decoder allocate. One test alone in its process: the counter is the whole process's.
#![allow(clippy::unwrap_used)]
// A counting allocator cannot be written without; the crate itself has none.
#![allow(unsafe_code)]

mod common;

use bytes::Bytes;
use common::reseal;
use seam_wire::ErrorCode;
use seam_wire::batch::{BATCH_HEADER_LEN, BatchBuilder, BatchLimits, Compression, records, verify};
use seam_wire::frame::{Frame, FrameError, FrameHeader, HEADER_LEN};
use seam_wire::msg::Peer;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system allocator unchanged and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was allocated at once while `work` ran, above what was before.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed) - before)
}

/// A sound batch of one record of zeroes, which LZ4 shrinks about 250 times.
fn bomb(value_bytes: usize) -> Bytes {
    let limits =
        BatchLimits { max_record_bytes: usize::MAX, max_uncompressed_bytes: usize::MAX, ..BatchLimits::default() };
    let mut builder = BatchBuilder::new(Compression::Lz4, None).limits(limits);
    builder.push(0, None, Some(&vec![0; value_bytes]), &[]).unwrap();
    builder.build().unwrap()
}

const DECODER_BLOCKS: usize = 9 << 20;

#[test]
fn hostile_bytes_cost_no_more_than_the_bounds() {
    // A decompression bomb is an error and stays within the bound.
    let batch = bomb(256 << 20);
    assert!(batch.len() < 2 << 20);
    for max in [0, 1, 1 << 16, 1 << 20, 8 << 20] {
        let (result, peak) = peak_of(|| verify(&batch, max));
        assert_eq!(result.unwrap_err().code(), ErrorCode::BatchTooLarge, "bound {max}");
        assert!(peak <= max + DECODER_BLOCKS, "bound {max}, spent {peak}");
    }
    let (result, peak) = peak_of(|| records(&batch));
    assert_eq!(result.unwrap_err().code(), ErrorCode::BatchTooLarge);
    assert!(peak <= (64 << 20) + DECODER_BLOCKS, "spent {peak}");

    // A record that declares far more than is there costs nothing; nor does a lying count of records.
    let mut builder = BatchBuilder::default();
    builder.push(0, None, Some(b"v"), &[]).unwrap();
    let sound = builder.build().unwrap();
    for (at, field) in [(57, (1i32 << 20).to_be_bytes()), (BATCH_HEADER_LEN, [0xfe, 0xff, 0xff, 0x0f])] {
        let mut batch = sound.to_vec();
        batch[at..at + 4].copy_from_slice(&field);
        if at == 57 {
            batch[23..27].copy_from_slice(&((1i32 << 20) - 1).to_be_bytes());
        }
        reseal(&mut batch);
        let batch = Bytes::from(batch);
        let (result, peak) = peak_of(|| records(&batch));
        assert!(result.is_err());
        assert!(peak < 4096, "spent {peak}");
    }

    // Frame lengths are refused before anything is allocated for them.
    let head = Frame::new(Peer::Open).encode().unwrap().to_bytes();
    for at in [4, 8] {
        let mut header: [u8; HEADER_LEN] = head[..HEADER_LEN].try_into().unwrap();
        header[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let (result, peak) = peak_of(|| FrameHeader::parse(&header));
        assert!(matches!(result, Err(FrameError::TooLarge { .. })));
        assert_eq!(peak, 0);
    }
}
