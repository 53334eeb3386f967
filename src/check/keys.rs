//! Remembered keys.

use crate::dedupe;
use crate::engine::Space;
use crate::engine::verify::{CheckStep, Place, Rule, Walk, damage_of};
use crate::error::Result;

const ENTRY: Rule = Rule::new(
    "remembered",
    "every remembered key has its checksum, and a scope and a key within their limits",
);

/// Judges all remembered keys and gives their number.
pub(super) fn walk(walk: &mut Walk<'_>) -> Result<u64> {
    let mut keys = 0;
    walk.each(Space::Ending, CheckStep::Remembered, |stored, bytes, findings| {
        keys += 1;
        let place = || {
            let (scope, key) = dedupe::name_of(stored).unwrap_or_default();
            Place::Remembered {
                scope: scope.escape_ascii().to_string(),
                key: key.escape_ascii().to_string(),
            }
        };
        damage_of(dedupe::judge(stored, bytes), findings, place, ENTRY).map(drop)
    })?;
    Ok(keys)
}
