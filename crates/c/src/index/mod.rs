//! Ordered indexes: creation, and calls on one key.

mod create;
mod encoding;
#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use crate::async_cell::AsyncCell;
use crate::code::{FW_ERR_TYPE_MISMATCH, FW_EXISTS, FW_MISMATCH, FW_NOT_FOUND, FW_OK};
use crate::failure::{CallResult, Failure};
use crate::number::encoded;
pub use create::FwIndexOptions;
pub(crate) use encoding::Encoding;
use farwood::types::{Codec as _, Kind, Unfit};
use farwood::{AsyncIndex, Error, Index};
use std::borrow::Cow;
use std::time::Duration;

/// The type of byte strings, which all indexes have at this interface.
type Bytes = Vec<u8>;

/// An ordered index. Any number of threads may use it.
pub struct FwIndex {
    pub(crate) index: Index<Bytes, Bytes>,
    pub(crate) keys: Encoding,
    pub(crate) values: Encoding,
    /// The handle of sessions, once there was one.
    asynchronous: AsyncCell<AsyncIndex<Bytes, Bytes>>,
}

/// Adds to an encoded number, which is 0 if it is absent. A value that is no number stays.
pub(crate) type Addition = fn(Option<&Bytes>, i64) -> Bytes;

impl FwIndex {
    /// A handle whose calls wait no longer than `timeout_ms`; 0: no limit.
    fn of(index: Index<Bytes, Bytes>, timeout_ms: u64) -> Self {
        let index = match timeout_ms {
            0 => index,
            limit => index.with_timeout(Duration::from_millis(limit)),
        };
        let [keys, values] = index.kinds();
        let (keys, values) =
            (Encoding::new(keys, index.key_width()), Encoding::new(values, index.value_width()));
        Self { index, keys, values, asynchronous: AsyncCell::new() }
    }

    /// The handle of sessions. The first call starts the thread of the pool.
    pub(crate) fn to_async(&self) -> CallResult<AsyncIndex<Bytes, Bytes>> {
        self.asynchronous.get(|| Ok(self.index.to_async()?))
    }

    /// The encoded bytes of a key, if it fits.
    pub(crate) fn key<'a>(&self, operation: &'static str, key: &'a [u8]) -> CallResult<Cow<'a, [u8]>> {
        self.keys.encode(key).map_err(|why| self.unfit(operation, "key", why))
    }

    /// The encoded bytes of a value, if it fits.
    pub(crate) fn value<'a>(&self, operation: &'static str, value: &'a [u8]) -> CallResult<Cow<'a, [u8]>> {
        self.values.encode(value).map_err(|why| self.unfit(operation, "value", why))
    }

    fn unfit(&self, operation: &'static str, what: &'static str, why: Unfit) -> Failure {
        Error::Unfit { operation, url: self.index.url(), what, why }.into()
    }

    /// The function that adds to an encoded number, if the values are numbers.
    pub(crate) fn addition(&self) -> CallResult<Addition> {
        match self.values.kind {
            Kind::U64 => Ok(|value, by| sum_u64(value, by.cast_unsigned())),
            Kind::I64 => Ok(sum_i64),
            kind => Err(Failure::Refused(
                FW_ERR_TYPE_MISMATCH,
                format!(
                    "fetch add {}: the values are of kind {}; use an index with values of kind FW_U64 or FW_I64",
                    self.index.url(),
                    encoding::name_of(kind)
                ),
            )),
        }
    }

    /// Closes the index. Calls of sessions that have begun end before.
    fn close(self) {
        let started = self.asynchronous.into_inner();
        let finished = started.as_ref().map(AsyncIndex::finished);
        drop((started, self.index));
        if let Some(finished) = finished {
            farwood::runtime::block_on(finished);
        }
    }
}

fn sum_u64(value: Option<&Bytes>, by: u64) -> Bytes {
    let before = value.map_or(Ok(0), |bytes| u64::decode(bytes));
    before.map_or_else(
        |_| value.cloned().unwrap_or_default(),
        |before| encoded(&before.wrapping_add(by)).to_vec(),
    )
}

fn sum_i64(value: Option<&Bytes>, by: i64) -> Bytes {
    let before = value.map_or(Ok(0), |bytes| i64::decode(bytes));
    before.map_or_else(
        |_| value.cloned().unwrap_or_default(),
        |before| encoded(&before.wrapping_add(by)).to_vec(),
    )
}

/// The bits of the number that an addition has found, which is 0 if it is absent.
pub(crate) fn number_of(kind: Kind, value: Option<&Bytes>) -> CallResult<i64> {
    let number = value.map_or(Ok(0), |bytes| match kind {
        Kind::I64 => i64::decode(bytes),
        _ => u64::decode(bytes).map(u64::cast_signed),
    });
    number.map_err(|why| {
        Failure::Refused(FW_ERR_TYPE_MISMATCH, format!("fetch add: the value {why}; nothing was changed"))
    })
}

impl FwIndex {
    fn put(&self, key: &[u8], value: &[u8]) -> CallResult {
        self.index.put(&*self.key("put", key)?, &*self.value("put", value)?)?;
        Ok(FW_OK)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> CallResult {
        let inserted = self.index.insert(&*self.key("insert", key)?, &*self.value("insert", value)?)?;
        Ok(if inserted { FW_OK } else { FW_EXISTS })
    }

    fn update(&self, key: &[u8], value: &[u8]) -> CallResult {
        let updated = self.index.update(&*self.key("update", key)?, &*self.value("update", value)?)?;
        Ok(if updated { FW_OK } else { FW_NOT_FOUND })
    }

    fn remove(&self, key: &[u8]) -> CallResult {
        let removed = self.index.remove(&*self.key("remove", key)?)?;
        Ok(if removed { FW_OK } else { FW_NOT_FOUND })
    }

    /// Replaces `expected` by `new`; passes the value of the key to `differs` if it is another one.
    fn compare_exchange(
        &self,
        key: &[u8],
        [expected, new]: [Option<&[u8]>; 2],
        differs: impl FnOnce(&[u8]),
    ) -> CallResult {
        const OPERATION: &str = "compare exchange";
        let key = self.key(OPERATION, key)?;
        let owned = |value: Option<&[u8]>| -> CallResult<Option<Bytes>> {
            value.map(|value| Ok(self.value(OPERATION, value)?.into_owned())).transpose()
        };
        let (expected, new) = (owned(expected)?, owned(new)?);
        Ok(match self.index.compare_exchange(&*key, expected.as_ref(), new.as_ref())? {
            Ok(()) => FW_OK,
            Err(None) => FW_NOT_FOUND,
            Err(Some(current)) => {
                differs(self.values.shown(&current));
                FW_MISMATCH
            }
        })
    }

    /// Adds to a number; returns its bits before.
    fn fetch_add(&self, key: &[u8], by: i64) -> CallResult<i64> {
        let add = self.addition()?;
        let key = self.key("fetch add", key)?;
        let before = self.index.fetch_update(&*key, |value| Some(add(value, by)))?;
        number_of(self.values.kind, before.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_leaves_a_value_that_is_no_number() {
        let malformed = vec![1, 2, 3];
        assert_eq!(sum_u64(Some(&malformed), 5), malformed);
        assert_eq!(sum_i64(Some(&malformed), 5), malformed);
        assert!(number_of(Kind::U64, Some(&malformed)).is_err());
        assert_eq!(number_of(Kind::I64, Some(&sum_i64(None, -5))).unwrap(), -5);
        assert_eq!(number_of(Kind::U64, Some(&sum_u64(None, u64::MAX))).unwrap(), -1);
    }
}
