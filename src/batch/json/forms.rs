//! The forms that a batch has as JSON.
//!
//! An object is read from an object only, and a word from a text only: a derived form would also take a list for an object, and
//! an object for a word.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::quoted;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchText<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) once: Option<Object<OnceText>>,
    #[serde(default)]
    pub(super) tables: Described<TableText>,
    #[serde(default)]
    pub(super) queues: Described<QueueText>,
    #[serde(borrow)]
    pub(super) operations: Vec<Object<OperationText<'a>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnceText {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) keep: String,
    #[serde(default, deserialize_with = "given")]
    pub(super) issued_at: Option<String>,
}

/// Descriptions by name. A name that is given twice is an error, where a map would take the last one.
pub(super) struct Described<T>(pub(super) BTreeMap<String, Object<T>>);

impl<T> Default for Described<T> {
    fn default() -> Self {
        Described(BTreeMap::new())
    }
}

/// What a description describes.
pub(super) trait Description {
    const OF: &'static str;
}

impl Description for TableText {
    const OF: &'static str = "table";
}

impl Description for QueueText {
    const OF: &'static str = "queue";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableText {
    pub(super) key: String,
    pub(super) codec: String,
    pub(super) schema: Option<u32>,
    /// Left out: whatever the file has. Null: there is none.
    #[serde(default, deserialize_with = "given")]
    pub(super) machine: Option<Option<Object<MachineText>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineText {
    pub(super) name: String,
    pub(super) states: Vec<String>,
    pub(super) initial: String,
    pub(super) moves: Vec<(String, String)>,
    #[serde(default)]
    pub(super) cyclic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueText {
    pub(super) codec: String,
    #[serde(default)]
    pub(super) at_most_once: bool,
}

/// The fields of all operations. Which of them an operation has is judged behind it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationText<'a> {
    #[serde(deserialize_with = "word")]
    pub(super) op: Word,
    #[serde(default, deserialize_with = "given")]
    pub(super) table: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) key: Option<KeyText>,
    #[serde(default, deserialize_with = "given")]
    pub(super) condition: Option<ConditionText>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) value: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    pub(super) state: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) from: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) to: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) queue: Option<String>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) message: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    pub(super) delay: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) at: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) expires_at: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) headers: Option<Vec<(String, String)>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) retry: Option<Object<RetryText>>,
    #[serde(default, deserialize_with = "given_word")]
    pub(super) on_dead: Option<OnDeadWord>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryText {
    #[serde(default, deserialize_with = "given")]
    pub(super) base: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cap: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) failures: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(super) interruptions: Option<u32>,
    /// Null: never.
    #[serde(default, deserialize_with = "given")]
    pub(super) give_up_after: Option<Option<String>>,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
pub(super) enum OnDeadWord {
    #[serde(rename = "block key")]
    BlockKey,
    #[serde(rename = "go on")]
    GoOn,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    Check,
    Put,
    Create,
    Delete,
    Transition,
    Enqueue,
}

pub(super) enum ConditionText {
    Word(ConditionWord),
    Version(u64),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ConditionWord {
    Any,
    Absent,
    Present,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionText {
    version: u64,
}

/// A key as a number, or in the text form of its kind.
pub(crate) enum KeyText {
    U64(u64),
    I64(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BytesText {
    pub(super) base64: String,
}

/// What is read from an object only.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Form<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Form<T> {
            type Value = Object<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Form(PhantomData))
    }
}

/// What is read from a text only.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

fn given_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    word(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for ConditionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConditionText, D::Error> {
        struct Form;

        impl<'de> Visitor<'de> for Form {
            type Value = ConditionText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a condition: any, absent, present, or an object with a version")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ConditionText, E> {
                ConditionWord::deserialize(text.into_deserializer()).map(ConditionText::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ConditionText, A::Error> {
                VersionText::deserialize(MapAccessDeserializer::new(map))
                    .map(|text| ConditionText::Version(text.version))
            }
        }

        deserializer.deserialize_any(Form)
    }
}

/// A field that is there, also if it is null: a null that somebody's program left there must not turn into "no condition".
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyText, D::Error> {
        struct Form;

        impl Visitor<'_> for Form {
            type Value = KeyText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a key: a whole number of 64 bits, or a text")
            }

            fn visit_u64<E>(self, number: u64) -> Result<KeyText, E> {
                Ok(KeyText::U64(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<KeyText, E> {
                Ok(KeyText::I64(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<KeyText, E> {
                Ok(KeyText::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(Form)
    }
}

impl<'de, T: Description + Deserialize<'de>> Deserialize<'de> for Described<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form<T>(PhantomData<T>);

        impl<'de, T: Description + Deserialize<'de>> Visitor<'de> for Form<T> {
            type Value = Described<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "descriptions of {}s by name", T::OF)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Described<T>, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, one)) = map.next_entry::<String, Object<T>>()? {
                    let shown = quoted(&name);
                    if all.insert(name, one).is_some() {
                        let what = T::OF;
                        return Err(A::Error::custom(format_args!("{what} `{shown}` is described twice")));
                    }
                }
                Ok(Described(all))
            }
        }

        deserializer.deserialize_map(Form(PhantomData))
    }
}
