//! One table per wire structure: the offset, name and type of each field stand in one place, and the struct, its
//! encoder and its decoder are made from it. Overlapping, unordered or overflowing fields do not compile.
//! NVMe is little-endian throughout; NBD (big-endian) does not use this module.

/// A value with a fixed little-endian encoding.
pub(crate) trait Field: Copy {
    /// Encoded length.
    const BYTES: usize;
    /// The value whose encoding is all zeros.
    const ZERO: Self;
    /// Reads from exactly `BYTES` bytes.
    fn get(bytes: &[u8]) -> Self;
    /// Writes exactly `BYTES` bytes.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! integer_field {
    ($($ty:ty),+) => {$(
        impl Field for $ty {
            const BYTES: usize = size_of::<$ty>();
            const ZERO: Self = 0;

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$ty>()];
                raw.copy_from_slice(bytes);
                <$ty>::from_le_bytes(raw)
            }

            #[inline]
            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )+};
}
integer_field!(u8, u16, u32, u64, u128);

impl<T: Field, const N: usize> Field for [T; N] {
    const BYTES: usize = T::BYTES * N;
    const ZERO: Self = [T::ZERO; N];

    fn get(bytes: &[u8]) -> Self {
        std::array::from_fn(|index| T::get(&bytes[index * T::BYTES..][..T::BYTES]))
    }

    fn put(&self, bytes: &mut [u8]) {
        for (value, slot) in self.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
            value.put(slot);
        }
    }
}

/// Reads a field at a fixed offset of a longer structure.
#[inline]
pub(crate) fn get<T: Field>(bytes: &[u8], offset: usize) -> T {
    T::get(&bytes[offset..offset + T::BYTES])
}

/// Writes a field at a fixed offset of a longer structure.
#[inline]
pub(crate) fn put<T: Field>(bytes: &mut [u8], offset: usize, value: T) {
    value.put(&mut bytes[offset..offset + T::BYTES]);
}

/// Rejects (at compile time) fields that are out of order, overlap, or pass the end.
pub(crate) const fn check(fields: &[(usize, usize)], total_bytes: usize) {
    let mut end = 0;
    let mut index = 0;
    while index < fields.len() {
        assert!(fields[index].0 >= end, "fields overlap or are out of order");
        end = fields[index].0 + fields[index].1;
        index += 1;
    }
    assert!(end <= total_bytes, "a field passes the end of its structure");
}

/// Declares a structure of fixed length: `offset => name: type`. Bytes without a field are reserved: ignored when read, zero when written.
macro_rules! wire_struct {
    ($(#[$meta:meta])* pub struct $name:ident: $bytes:literal {
        $($(#[$field_meta:meta])* $offset:literal => $field:ident: $ty:ty,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)+
        }

        const _: () =
            $crate::layout::check(&[$(($offset, <$ty as $crate::layout::Field>::BYTES)),+], $bytes);

        impl $name {
            /// Encoded length.
            pub const BYTES: usize = $bytes;

            /// Reads every field; reserved bytes are ignored.
            pub fn decode(bytes: &[u8; $bytes]) -> Self {
                Self { $($field: $crate::layout::get(bytes, $offset),)+ }
            }

            /// Writes every field; reserved bytes are zero.
            pub fn encode(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $($crate::layout::put(&mut bytes, $offset, self.$field);)+
                bytes
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::layout::Field>::ZERO
            }
        }

        impl $crate::layout::Field for $name {
            const BYTES: usize = $bytes;
            const ZERO: Self = Self { $($field: <$ty as $crate::layout::Field>::ZERO,)+ };

            fn get(bytes: &[u8]) -> Self {
                Self { $($field: $crate::layout::get(bytes, $offset),)+ }
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.encode());
            }
        }
    };
}
pub(crate) use wire_struct;

/// Declares an enum of wire codes with its raw type; `from_raw` returns `None` for codes that are not listed.
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident: $raw:ty {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Every code, in the order of the specification.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The typed form of a raw code, if it is listed.
            #[inline]
            pub const fn from_raw(raw: $raw) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The code on the wire.
            #[inline]
            pub const fn raw(self) -> $raw {
                match self {
                    $(Self::$variant => $value,)+
                }
            }
        }
    };
}
pub(crate) use wire_enum;
