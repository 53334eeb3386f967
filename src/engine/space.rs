//! Key spaces: the first byte of every key says to which table of the base it belongs.

/// A key space. The number is the first byte of its keys and part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Space {
    /// The catalogue: tables, their kinds and machines, and what the store knows of itself.
    Meta = 0,
    /// Records of all tables.
    Records = 1,
    /// Entries that end: a value begins with the retention time of its end in nanoseconds (`u64`, big endian), and the
    /// checkpoint drops the entry when that is over. A reader judges the end itself.
    Ending = 2,
    /// Records with a state once more, by table and state; values are empty.
    States = 3,
    /// Messages of all queues.
    Messages = 4,
}

impl Space {
    pub(crate) const ALL: [Space; 5] = [
        Space::Meta,
        Space::Records,
        Space::Ending,
        Space::States,
        Space::Messages,
    ];

    /// The name of its table in the base.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Meta => "meta",
            Space::Records => "records",
            Space::Ending => "ending",
            Space::States => "states",
            Space::Messages => "messages",
        }
    }

    /// A new key that begins with this space's byte, with room for `more` bytes.
    pub(crate) fn key(self, more: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + more);
        key.push(self as u8);
        key
    }

    /// Takes a key apart; `None` if its space is unknown.
    pub(crate) fn split(key: &[u8]) -> Option<(Space, &[u8])> {
        let (first, rest) = key.split_first()?;
        let space = Space::ALL.into_iter().find(|space| *space as u8 == *first)?;
        Some((space, rest))
    }
}
