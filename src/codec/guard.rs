//! A guard around a deserializer whose format trusts the lengths and the nesting that it reads.
//!
//! Forged bytes could make it allocate by a length that they do not pay for, nest until the stack ends, or count to 2^64
//! over elements that take no bytes. The guard asks for text and bytes in the form that the format can only answer with
//! bytes it has, counts levels, and counts elements against a budget.

use crate::limits::VALUE_DEPTH_MAX;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// Wraps whatever serde passes around (seeds, deserializers, visitors, accesses), so that what comes out of it is wrapped too.
pub struct Guard<'b, T> {
    inner: T,
    depth: usize,
    /// Elements that sequences and maps of the whole value may still have.
    budget: &'b Cell<usize>,
    /// Whether what comes out is an element that counts. Fields and tuples have their number from the type.
    counts: bool,
}

impl<'b, T> Guard<'b, T> {
    /// Guards the decoding of one value.
    pub fn new(inner: T, budget: &'b Cell<usize>) -> Guard<'b, T> {
        Guard {
            inner,
            depth: 0,
            budget,
            counts: false,
        }
    }

    fn around<U>(&self, inner: U) -> Guard<'b, U> {
        Guard {
            inner,
            depth: self.depth,
            budget: self.budget,
            counts: self.counts,
        }
    }

    /// The visitor of what lies one level deeper.
    fn deeper<V, E: Error>(&self, visitor: V, counts: bool) -> Result<Guard<'b, V>, E> {
        if self.depth >= VALUE_DEPTH_MAX {
            return Err(E::custom(format_args!("nested too deep, depth_max={VALUE_DEPTH_MAX}")));
        }
        Ok(Guard {
            inner: visitor,
            depth: self.depth + 1,
            budget: self.budget,
            counts,
        })
    }

    fn spend<E: Error>(&self) -> Result<(), E> {
        if !self.counts {
            return Ok(());
        }
        let left = self
            .budget
            .get()
            .checked_sub(1)
            .ok_or_else(|| E::custom("more elements than the bytes pay for"))?;
        self.budget.set(left);
        Ok(())
    }

    /// A hint that no caller can be tricked with.
    fn bounded(&self, hint: Option<usize>) -> Option<usize> {
        hint.map(|len| len.min(self.budget.get()))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Guard<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let guarded = self.around(deserializer);
        self.inner.deserialize(guarded)
    }
}

macro_rules! plain {
    ($($method:ident as $asked:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$asked(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guard<'_, D> {
    type Error = D::Error;

    plain! {
        deserialize_any as deserialize_any,
        deserialize_bool as deserialize_bool,
        deserialize_i8 as deserialize_i8,
        deserialize_i16 as deserialize_i16,
        deserialize_i32 as deserialize_i32,
        deserialize_i64 as deserialize_i64,
        deserialize_i128 as deserialize_i128,
        deserialize_u8 as deserialize_u8,
        deserialize_u16 as deserialize_u16,
        deserialize_u32 as deserialize_u32,
        deserialize_u64 as deserialize_u64,
        deserialize_u128 as deserialize_u128,
        deserialize_f32 as deserialize_f32,
        deserialize_f64 as deserialize_f64,
        deserialize_char as deserialize_char,
        deserialize_str as deserialize_str,
        deserialize_bytes as deserialize_bytes,
        // Owned forms would be allocated by the length that was read; borrowed ones are cut out of the bytes.
        deserialize_string as deserialize_str,
        deserialize_byte_buf as deserialize_bytes,
        deserialize_unit as deserialize_unit,
        deserialize_identifier as deserialize_identifier,
        deserialize_ignored_any as deserialize_ignored_any,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_option(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, true)?;
        self.inner.deserialize_seq(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, true)?;
        self.inner.deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.deeper(visitor, false)?;
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Only what lies a level deeper is visited through here, so plain values keep serde's answer: not expected.
impl<'de, V: Visitor<'de>> Visitor<'de> for Guard<'_, V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(out)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let guarded = self.around(deserializer);
        self.inner.visit_some(guarded)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let guarded = self.around(deserializer);
        self.inner.visit_newtype_struct(guarded)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let guarded = self.around(access);
        self.inner.visit_seq(guarded)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let guarded = self.around(access);
        self.inner.visit_map(guarded)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let guarded = self.around(access);
        self.inner.visit_enum(guarded)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.around(seed);
        let element = self.inner.next_element_seed(seed)?;
        if element.is_some() {
            self.spend()?;
        }
        Ok(element)
    }

    fn size_hint(&self) -> Option<usize> {
        self.bounded(self.inner.size_hint())
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.around(seed);
        let key = self.inner.next_key_seed(seed)?;
        if key.is_some() {
            self.spend()?;
        }
        Ok(key)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.around(seed);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.bounded(self.inner.size_hint())
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Guard<'b, A> {
    type Error = A::Error;
    type Variant = Guard<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Guard<'b, A::Variant>), A::Error> {
        let (depth, budget, counts) = (self.depth, self.budget, self.counts);
        let (name, variant) = self.inner.variant_seed(seed)?;
        Ok((
            name,
            Guard {
                inner: variant,
                depth,
                budget,
                counts,
            },
        ))
    }
}

/// What a variant holds is visited at the level of its enum, which was counted already.
impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.around(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.around(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.around(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}
