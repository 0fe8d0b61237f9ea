//! `#[derive(Settings)]` and `#[derive(Word)]` of the crate `setting`, which documents them.
//!
//! Invariant: a field without `#[setting(...)]`, an unknown attribute, and contradictory attributes do not compile.

mod field;

use field::Field;
use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result, parse_macro_input};

/// Lists the settings of a struct, and makes it from their values.
#[proc_macro_derive(Settings, attributes(setting))]
pub fn settings(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    of_struct(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn of_struct(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let named = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            other => return Err(Error::new_spanned(other, "settings have names: allowed: named fields")),
        },
        _ => return Err(Error::new_spanned(input, "allowed: a struct")),
    };
    let fields: Vec<Field> = named.iter().map(Field::read).collect::<Result<_>>()?;
    let listed = fields.iter().map(Field::list);
    let taken = fields.iter().map(Field::take);
    let name = &input.ident;
    Ok(quote! {
        impl ::pellucid_setting::Settings for #name {
            fn list(table: &str, keys: &mut ::std::vec::Vec<::pellucid_setting::Key>) {
                #(#listed)*
            }

            fn take(values: &dyn ::pellucid_setting::Source, table: &str) -> Self {
                #name { #(#taken),* }
            }
        }
    })
}

/// Makes a closed set, whose words strum knows (`EnumString`, `VariantNames`), a setting, and a list of its words another.
#[proc_macro_derive(Word)]
pub fn word(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let name = &input.ident;
    quote! {
        impl ::pellucid_setting::Setting for #name {
            const KIND: ::pellucid_setting::Kind =
                ::pellucid_setting::Kind::Word(<#name as ::strum::VariantNames>::VARIANTS);

            fn take(typed: &::pellucid_setting::Typed) -> Self {
                typed.parse()
            }
        }

        impl ::pellucid_setting::Item for #name {
            const LIST: ::pellucid_setting::Kind =
                ::pellucid_setting::Kind::Words(<#name as ::strum::VariantNames>::VARIANTS);

            fn take_list(typed: &::pellucid_setting::Typed) -> ::std::vec::Vec<Self> {
                typed.parse_list()
            }
        }
    }
    .into()
}
