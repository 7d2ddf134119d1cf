//! Reading a mapping and checking it in one step.
//!
//! The YAML reader adds a line to an error only while it stands at the mapping that the error is about, so checks that
//! serde's derive cannot express run here, inside the visitor.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};

/// Reads a mapping as `Keys` and turns it into `T` before the reader moves on, so that a problem names the mapping's
/// line; plain text instead of a mapping goes to [`FromText`].
pub(super) struct Checked<Keys, T>(pub(super) PhantomData<(Keys, T)>);

/// What a value means that was written as text where a mapping could stand.
pub(super) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, String>;

    /// The same for `true` and `false`.
    fn from_bool(value: bool) -> Result<Self, String> {
        Self::from_text(if value { "true" } else { "false" })
    }
}

impl<'de, Keys, T> Visitor<'de> for Checked<Keys, T>
where
    Keys: Deserialize<'de>,
    T: TryFrom<Keys, Error = String> + FromText,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<T, E> {
        T::from_bool(value).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::try_from(Keys::deserialize(MapAccessDeserializer::new(map))?).map_err(A::Error::custom)
    }
}

/// Reads `$type` from a mapping of `$keys`, or from text.
macro_rules! checked {
    ($type:ty, $keys:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::script::checked::Checked::<$keys, $type>(std::marker::PhantomData))
            }
        }
    };
}
pub(super) use checked;
