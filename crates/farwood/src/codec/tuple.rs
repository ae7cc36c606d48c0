//! Tuples: the components one after the other, each with its end, so that the order is by components.

use super::encode::{Codec, Encode, Key, Value};
use super::part::check_padding;
use super::prefix::{Prefix, PrefixPart};
use super::type_name::TypeName;
use crate::inline_bytes::InlineBytes;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;

/// The length of a tuple, if all components have one.
const fn sum(widths: &[Option<usize>]) -> Option<usize> {
    let (mut bytes, mut at) = (0, 0);
    while at < widths.len() {
        match widths[at] {
            Some(width) => bytes += width,
            None => return None,
        }
        at += 1;
    }
    Some(bytes)
}

macro_rules! tuple {
    ($($component:ident $argument:ident $at:tt),+) => {
        impl<$($component: Codec, $argument: Encode<$component>),+> Encode<($($component,)+)> for ($($argument,)+) {
            type Encoded<'a>
                = InlineBytes
            where
                Self: 'a;

            #[inline]
            fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
                let mut parts = InlineBytes::empty();
                $(self.$at.encode_part(&mut parts)?;)+
                parts.fit(width)
            }

            #[inline]
            fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit> {
                $(self.$at.encode_part(parts)?;)+
                Ok(())
            }
        }

        impl<$($component: Codec),+> Codec for ($($component,)+) {
            const KIND: Kind = Kind::Structured;
            const NAME: TypeName = TypeName::tuple(&[$($component::NAME),+]);
            const WIDTH: Option<usize> = sum(&[$($component::WIDTH),+]);

            #[inline]
            fn decode(mut bytes: &[u8]) -> Result<Self, Unfit> {
                let tuple = Self::decode_part(&mut bytes)?;
                check_padding(bytes)?;
                Ok(tuple)
            }

            #[inline]
            fn decode_part(parts: &mut &[u8]) -> Result<Self, Unfit> {
                Ok(($($component::decode_part(parts)?,)+))
            }
        }

        impl<$($component: Key),+> Key for ($($component,)+) {}
        impl<$($component: Value),+> Value for ($($component,)+) {}
    };
}

tuple!(A X 0);
tuple!(A X 0, B Y 1);
tuple!(A X 0, B Y 1, C Z 2);
tuple!(A X 0, B Y 1, C Z 2, D U 3);
tuple!(A X 0, B Y 1, C Z 2, D U 3, E V 4);
tuple!(A X 0, B Y 1, C Z 2, D U 3, E V 4, F W 5);

/// Implements [`Prefix`] for tuples of the first components of longer tuples, and of all components.
macro_rules! prefix {
    ($($component:ident $argument:ident $at:tt),*; $last:ident $start:ident $last_at:tt; $($rest:ident)*) => {
        impl<
            $($component: Key, $argument: Encode<$component>,)*
            $last: Key, $start: PrefixPart<$last>,
            $($rest: Key),*
        > Prefix<($($component,)* $last, $($rest,)*)> for ($($argument,)* $start,) {
            fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
                $(self.$at.encode_part(prefix)?;)*
                self.$last_at.encode_prefix_part(prefix)
            }
        }
    };
}

/// Implements [`Prefix`] of one length for tuples of each longer length.
macro_rules! prefixes {
    ($first:tt; $last:tt;) => {
        prefixes!(@one $first; $last; []);
    };
    ($first:tt; $last:tt; $next:ident $($rest:ident)*) => {
        prefixes!(@each $first; $last; []; $next $($rest)*);
    };
    (@each $first:tt; $last:tt; [$($taken:ident)*];) => {
        prefixes!(@one $first; $last; [$($taken)*]);
    };
    (@each $first:tt; $last:tt; [$($taken:ident)*]; $next:ident $($rest:ident)*) => {
        prefixes!(@one $first; $last; [$($taken)*]);
        prefixes!(@each $first; $last; [$($taken)* $next]; $($rest)*);
    };
    (@one [$($first:tt)*]; [$($last:tt)*]; [$($rest:ident)*]) => {
        prefix!($($first)*; $($last)*; $($rest)*);
    };
}

prefixes!([]; [A X 0]; B C D E F);
prefixes!([A X 0]; [B Y 1]; C D E F);
prefixes!([A X 0, B Y 1]; [C Z 2]; D E F);
prefixes!([A X 0, B Y 1, C Z 2]; [D U 3]; E F);
prefixes!([A X 0, B Y 1, C Z 2, D U 3]; [E V 4]; F);
prefixes!([A X 0, B Y 1, C Z 2, D U 3, E V 4]; [F W 5];);
