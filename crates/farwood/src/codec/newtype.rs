//! Types with one field, stored as the field.

/// Makes a type with one field a type of keys and values, stored as the field.
///
/// The index records the given name, so it cannot be opened with the type of the field or with another type. Give a
/// name that never changes, even if the type is renamed. The command shows keys and values as those of the field.
///
/// ```
/// #[derive(Debug, PartialEq)]
/// struct UserId(u64);
/// farwood::key_type!(UserId(u64), "user id");
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-key-type-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
///
/// let managers = pool.create_index::<UserId, UserId>("managers", &BTree::new())?;
/// managers.put(UserId(7), UserId(1))?;
/// assert_eq!(managers.get(UserId(7))?, Some(UserId(1)));
/// # drop(managers);
/// let refused = pool.open_index::<u64, u64>("managers").unwrap_err();
/// assert!(matches!(refused, farwood::Error::Type { .. }));
/// # drop(pool);
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[macro_export]
macro_rules! key_type {
    ($own:ident($field:ty), $name:literal) => {
        $crate::value_type!($own($field), $name);

        impl $crate::Key for $own where $field: $crate::Key {}
    };
}

/// Makes a type with one field a type of values, stored as the field; see [`key_type!`](crate::key_type).
#[macro_export]
macro_rules! value_type {
    ($own:ident($field:ty), $name:literal) => {
        impl $crate::types::Encode<$own> for $own {
            type Encoded<'a> = <$field as $crate::types::Encode<$field>>::Encoded<'a>;

            #[inline]
            fn encode(
                &self,
                width: $crate::types::Width,
            ) -> ::std::result::Result<Self::Encoded<'_>, $crate::types::Unfit> {
                <$field as $crate::types::Encode<$field>>::encode(&self.0, width)
            }

            #[inline]
            fn encode_part(
                &self,
                parts: &mut $crate::types::InlineBytes,
            ) -> ::std::result::Result<(), $crate::types::Unfit> {
                <$field as $crate::types::Encode<$field>>::encode_part(&self.0, parts)
            }
        }

        impl $crate::types::Codec for $own {
            const KIND: $crate::types::Kind = <$field as $crate::types::Codec>::KIND;
            const NAME: $crate::types::TypeName = $crate::types::TypeName::new($name);
            const WIDTH: ::std::option::Option<usize> = <$field as $crate::types::Codec>::WIDTH;

            #[inline]
            fn decode(bytes: &[u8]) -> ::std::result::Result<Self, $crate::types::Unfit> {
                <$field as $crate::types::Codec>::decode(bytes).map(Self)
            }

            #[inline]
            fn decode_part(parts: &mut &[u8]) -> ::std::result::Result<Self, $crate::types::Unfit> {
                <$field as $crate::types::Codec>::decode_part(parts).map(Self)
            }
        }

        impl $crate::Value for $own {}
    };
}
