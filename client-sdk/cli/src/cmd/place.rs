//! Where in a topic, as a flag: a word, an offset, or a moment.

use crate::moment;
use anyhow::bail;
use seamlog::{Offset, ReadFrom};
use std::str::FromStr;

/// What help says of it.
pub const PLACES: &str = "earliest, latest, an offset (5000), or a moment (2026-11-29T12:00:00Z, 1795953600000ms)";

/// A place in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub ReadFrom);

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Place(match text {
            "earliest" => ReadFrom::Earliest,
            "latest" => ReadFrom::Latest,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => {
                ReadFrom::Offset(Offset(number.parse()?))
            }
            other => match moment::parse(other) {
                Some(moment_ms) => ReadFrom::Timestamp(moment_ms),
                None => bail!("write {PLACES}"),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_word_an_offset_or_a_moment() {
        for (text, place) in [
            ("earliest", ReadFrom::Earliest),
            ("latest", ReadFrom::Latest),
            ("5000", ReadFrom::Offset(Offset(5000))),
            ("5000ms", ReadFrom::Timestamp(5_000)),
            ("1970-01-01T00:00:01Z", ReadFrom::Timestamp(1_000)),
        ] {
            assert_eq!(text.parse::<Place>().expect("taken"), Place(place), "{text}");
        }
        for text in ["-1", "", "yesterday", "2026-11-29"] {
            let error = format!("{:#}", text.parse::<Place>().expect_err("refused"));
            assert!(error.contains("earliest, latest, an offset"), "{error}");
        }
    }
}
