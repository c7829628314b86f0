//! Which range a key belongs to. Part of the contract: the same key must give the same range from every client, for ever.
//!
//! The hash is MurmurHash2, 32 bits, with the seed Kafka's clients use, and the range is the hash's low 31 bits modulo the
//! number of ranges: so a program that moves over from there finds its keys together as before.
//! (Austin Appleby's MurmurHash2; KIP-794 for keyless records.)

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// MurmurHash2 of `bytes`.
pub fn murmur2(bytes: &[u8]) -> u32 {
    let mix = |word: u32| {
        let word = word.wrapping_mul(MULTIPLIER);
        (word ^ (word >> SHIFT)).wrapping_mul(MULTIPLIER)
    };
    // Like the original, it takes the length modulo 2^32.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        hash = hash.wrapping_mul(MULTIPLIER) ^ mix(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The range, of `ranges` (at least 1), that records of `key` go to.
pub fn range_of(key: &[u8], ranges: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % ranges.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_gives_the_published_values() {
        let known: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key) as i32, hash, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn keys_spread_over_all_ranges() {
        let mut counts = [0u32; 7];
        for n in 0..7_000u32 {
            counts[range_of(format!("user-{n}").as_bytes(), 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        assert_eq!(range_of(b"anything", 1), 0);
    }
}
