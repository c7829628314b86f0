//! Zigzag varints as record batches use them: 32 bits in at most 5 bytes, 64 bits in at most 10.

/// Bytes `put(_, value)` takes.
pub(super) fn len(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

pub(super) fn put(out: &mut Vec<u8>, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes a 64 bit varint from the front. `None`: cut short, or more than 64 bits.
pub(super) fn take_i64(input: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *input = &input[i + 1..];
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

/// Takes a 32 bit varint from the front. `None`: cut short, or more than 32 bits.
pub(super) fn take_i32(input: &mut &[u8]) -> Option<i32> {
    let before = *input;
    let value = i32::try_from(take_i64(input)?).ok()?;
    (before.len() - input.len() <= 5).then_some(value)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back_and_is_as_long_as_said() {
        let edges =
            (0..63).flat_map(|bit| [1i64 << bit, (1i64 << bit) - 1, -(1i64 << bit)]).chain([i64::MIN, i64::MAX]);
        for value in edges {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), len(value), "{value}");
            assert_eq!(take_i64(&mut out.as_slice()), Some(value));
            assert_eq!(take_i32(&mut out.as_slice()), i32::try_from(value).ok(), "{value}");
        }
    }

    #[test]
    fn too_many_bits_and_missing_bytes_are_refused() {
        assert_eq!(take_i64(&mut [0xff; 10].as_slice()), None);
        assert_eq!(take_i64(&mut [0xff; 9].as_slice()), None);
        assert_eq!(take_i64(&mut [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2].as_slice()), None);
        assert_eq!(take_i32(&mut [0x80, 0x80, 0x80, 0x80, 0x80, 0].as_slice()), None, "six bytes for 32 bits");
        assert_eq!(take_i64(&mut [].as_slice()), None);
    }
}
