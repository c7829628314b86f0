//! Where a client's tail begins and ends: its words (`earliest`, `latest`, an offset) turned into numbers. A tail that does not
//! follow needs the range's end, which only the head knows; what is sealed before it is delivered meanwhile.

use crate::context::Context;
use crate::offsets;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::TailFrom;
use seam_wire::{Offset, RangeId};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Where a tail ends.
pub enum End {
    Never,
    At(Offset),
    /// Asked of the head since the tail was opened. What is sealed, up to `sealed`, is delivered meanwhile, and whatever
    /// the head says, or does not say.
    Asked {
        sealed: Offset,
        latest: AbortOnDropHandle<Result<Offset, WireError>>,
    },
}

impl End {
    fn of(follow: bool, latest: Offset) -> End {
        if follow { End::Never } else { End::At(latest) }
    }
}

/// First offset and end.
pub async fn place(
    context: &Arc<Context>,
    range: RangeId,
    from: TailFrom,
    follow: bool,
) -> Result<(Offset, End), WireError> {
    if !follow && let Some((start, sealed)) = sealed_part(context, range, from) {
        let asking = Arc::clone(context);
        let latest = tokio::spawn(async move { offsets::latest(&asking, range).await });
        return Ok((start, End::Asked { sealed, latest: AbortOnDropHandle::new(latest) }));
    }
    match (from, follow) {
        (TailFrom::Earliest, true) => match offsets::earliest(context, range) {
            Ok(earliest) => Ok((earliest, End::Never)),
            // A range just made: its first segment is on its way.
            Err(_) => offsets::ends(context, range).await.map(|(earliest, _)| (earliest, End::Never)),
        },
        (TailFrom::Earliest, false) => {
            offsets::ends(context, range).await.map(|(earliest, latest)| (earliest, End::At(latest)))
        }
        (TailFrom::Latest, _) => offsets::latest(context, range).await.map(|latest| (latest, End::of(follow, latest))),
        (TailFrom::Offset(offset), _) => {
            let (earliest, latest) = match known_bounds(context, range, offset, follow) {
                Some(bounds) => bounds,
                None => offsets::ends(context, range).await?,
            };
            if offset < earliest {
                context.counters.tails_trimmed.inc();
                return Err(WireError::trimmed(offset, earliest));
            }
            if offset > latest {
                let detail = format!("offset {offset} is outside of {earliest}..={latest}");
                return Err(WireError::refused(ErrorCode::OffsetOutOfRange, detail));
            }
            Ok((offset, End::of(follow, latest)))
        }
    }
}

/// Where the tail starts and where what is sealed ends, if that is beyond the start: so much needs no word of the head.
fn sealed_part(context: &Context, range: RangeId, from: TailFrom) -> Option<(Offset, Offset)> {
    let chains = context.picture.read();
    let earliest = chains.earliest(range)?;
    let start = match from {
        TailFrom::Earliest => earliest,
        TailFrom::Latest => return None,
        TailFrom::Offset(offset) => offset,
    };
    let sealed = chains.sealed_end(range)?;
    (earliest <= start && start < sealed).then_some((start, sealed))
}

/// Bounds good enough for a tail that follows: an offset in a sealed segment needs no question.
fn known_bounds(context: &Context, range: RangeId, offset: Offset, follow: bool) -> Option<(Offset, Offset)> {
    let chains = context.picture.read();
    let earliest = chains.earliest(range)?;
    let (end, _) = chains.sealed(chains.locate(range, offset)?)?;
    follow.then_some((earliest, end))
}
