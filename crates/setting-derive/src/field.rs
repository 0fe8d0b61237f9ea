//! One field of a struct: its attributes, and the code generated from them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, GenericArgument, Lit, LitStr, Meta, Path, PathArguments, Result, Type,
};

/// Role of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A key.
    Leaf,
    /// A struct with settings, in a table of its own.
    Table,
    /// A struct with settings, in the same table.
    Flatten,
    /// An optional struct in its own table, with a key that decides whether it exists.
    Switched,
    /// No setting.
    Skip,
}

/// A field with its attributes.
pub(crate) struct Field {
    ident: syn::Ident,
    ty: Type,
    role: Role,
    key: String,
    about: String,
    kind: Option<Expr>,
    default: Option<Expr>,
    or: Option<LitStr>,
    lead: bool,
    beside: Option<LitStr>,
    shared: bool,
    via: Option<Type>,
    by: Option<Path>,
    /// Value of a field that no key sets.
    made: Option<Expr>,
}

impl Field {
    /// Reads the attributes of a field.
    pub fn read(field: &syn::Field) -> Result<Field> {
        let ident = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "allowed: a named field"))?;
        let name = ident.to_string();
        let key = name.strip_suffix("_ns").or(name.strip_suffix("_bytes")).unwrap_or(&name).to_string();
        let mut read = Field {
            ty: field.ty.clone(),
            role: Role::Leaf,
            key,
            about: meaning(&field.attrs),
            kind: None,
            default: None,
            or: None,
            lead: false,
            beside: None,
            shared: false,
            via: None,
            by: None,
            made: None,
            ident,
        };
        let mut attributes = field.attrs.iter().filter(|attribute| attribute.path().is_ident("setting"));
        let Some(attribute) = attributes.next() else {
            return Err(Error::new_spanned(
                field,
                "not said what it is; allowed: #[setting(...)], or #[setting(skip)]",
            ));
        };
        attribute.parse_nested_meta(|meta| read.attribute(&meta))?;
        read.check(attribute.span()).map(|()| read)
    }

    fn attribute(&mut self, meta: &syn::meta::ParseNestedMeta) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "kind" => self.kind = Some(meta.value()?.parse()?),
            "default" => self.default = Some(meta.value()?.parse()?),
            "or" => self.or = Some(meta.value()?.parse()?),
            "key" => self.key = meta.value()?.parse::<LitStr>()?.value(),
            "about" => self.about = meta.value()?.parse::<LitStr>()?.value(),
            "beside" => self.beside = Some(meta.value()?.parse()?),
            "via" => self.via = Some(meta.value()?.parse()?),
            "by" => self.by = Some(meta.value()?.parse()?),
            "made" => self.made = Some(meta.value()?.parse()?),
            "shared" => self.shared = true,
            "lead" => self.lead = true,
            "table" | "flatten" | "switched" | "skip" => {
                self.role = match name.as_str() {
                    "table" => Role::Table,
                    "flatten" => Role::Flatten,
                    "switched" => Role::Switched,
                    _ => Role::Skip,
                };
                if meta.input.peek(syn::Token![=]) && self.role == Role::Skip {
                    self.made = Some(meta.value()?.parse()?);
                }
            }
            _ => {
                return Err(meta.error(
                    "unknown; allowed: kind, default, or, key, about, table, flatten, lead, switched, beside, shared, via, by, made, skip",
                ));
            }
        }
        Ok(())
    }

    fn check(&self, span: proc_macro2::Span) -> Result<()> {
        let is_leaf = self.role == Role::Leaf;
        let faults = [
            (
                !is_leaf && (self.kind.is_some() || self.default.is_some() || self.or.is_some()),
                "kind, default and or are of a key",
            ),
            (self.lead && self.role != Role::Table, "lead is of a table"),
            (self.by.is_some() && self.via.is_none(), "by needs via, the type that the function takes"),
            (is_leaf && self.about.is_empty(), "a key has a meaning: the doc comment, or about"),
        ];
        let found = faults.into_iter().find(|(is_there, _)| *is_there);
        found.map_or(Ok(()), |(_, sentence)| Err(Error::new(span, sentence)))
    }

    /// The table or key of the field, as an expression.
    fn path(&self) -> TokenStream {
        let key = &self.key;
        let table = match &self.beside {
            Some(beside) => quote!(&::pellucid_setting::neighbour(table, #beside)),
            None => quote!(table),
        };
        match self.role {
            Role::Flatten => quote!(#table),
            // `beside` itself names a neighbouring table.
            Role::Table | Role::Switched if self.beside.is_some() => quote!(#table),
            _ => quote!(&::pellucid_setting::join(#table, #key)),
        }
    }

    /// The type made from values.
    fn made_type(&self) -> &Type {
        self.via.as_ref().unwrap_or(&self.ty)
    }

    /// Statements that append the keys of the field to `keys`.
    pub fn list(&self) -> TokenStream {
        let (path, ty, about) = (self.path(), self.made_type(), &self.about);
        let listed = match self.role {
            Role::Skip => return TokenStream::new(),
            Role::Leaf => {
                let (kind, fallback) = (self.kind(), self.fallback());
                return self.with_marks(quote! {
                    keys.push(::pellucid_setting::Key {
                        path: (#path).to_string(),
                        kind: #kind,
                        fallback: ::pellucid_setting::Fallback::#fallback,
                        about: #about.into(),
                        shared: false,
                    });
                });
            }
            Role::Table | Role::Flatten => quote!(<#ty as ::pellucid_setting::Settings>::list(#path, keys);),
            Role::Switched => {
                let inner = inside_option(ty);
                quote! {
                    keys.push(::pellucid_setting::Key {
                        path: ::pellucid_setting::join(#path, "enabled"),
                        kind: ::pellucid_setting::Kind::Flag,
                        fallback: ::pellucid_setting::Fallback::Flag(false),
                        about: #about.into(),
                        shared: false,
                    });
                    <#inner as ::pellucid_setting::Settings>::list(#path, keys);
                }
            }
        };
        self.with_marks(listed)
    }

    /// Adds the marks that apply to all keys appended by `listed`.
    fn with_marks(&self, listed: TokenStream) -> TokenStream {
        if !self.shared && !self.lead {
            return listed;
        }
        let (about, lead, shared) = (&self.about, self.lead, self.shared);
        quote! {
            let first = keys.len();
            #listed
            for key in &mut keys[first..] {
                key.shared |= #shared;
                if #lead {
                    key.lead(#about);
                }
            }
        }
    }

    /// The field with its value.
    pub fn take(&self) -> TokenStream {
        let (ident, path, ty) = (&self.ident, self.path(), self.made_type());
        if let Some(made) = &self.made {
            return quote!(#ident: #made);
        }
        let taken = match self.role {
            Role::Skip => quote!(::std::default::Default::default()),
            Role::Leaf => quote!(::pellucid_setting::get::<#ty>(values, #path)),
            Role::Table | Role::Flatten => quote!(<#ty as ::pellucid_setting::Settings>::take(values, #path)),
            Role::Switched => quote!(::pellucid_setting::switched(values, #path)),
        };
        match (&self.via, &self.by) {
            (_, Some(by)) => quote!(#ident: #by(#taken)),
            (Some(_), None) => quote!(#ident: ::std::convert::Into::into(#taken)),
            (None, None) => quote!(#ident: #taken),
        }
    }

    /// The kind, as an expression.
    fn kind(&self) -> TokenStream {
        let ty = self.made_type();
        let kind = match &self.kind {
            Some(kind) => quote!({
                #[allow(unused_imports)]
                use ::pellucid_setting::*;
                #kind
            }),
            None => quote!(<#ty as ::pellucid_setting::Setting>::KIND),
        };
        match &self.or {
            Some(or) => quote!({
                const KIND: ::pellucid_setting::Kind = #kind;
                ::pellucid_setting::Kind::Or(#or, &KIND)
            }),
            None => kind,
        }
    }

    /// The variant of the fallback.
    fn fallback(&self) -> TokenStream {
        match (&self.default, &self.or) {
            (None, Some(or)) => quote!(Word(#or)),
            (None, None) => quote!(Required),
            (Some(Expr::Array(_)), _) => quote!(Empty),
            (Some(Expr::Lit(ExprLit { lit, .. })), _) => match lit {
                Lit::Str(word) => quote!(Word(#word)),
                Lit::Float(number) => quote!(Real(#number)),
                Lit::Bool(flag) => quote!(Flag(#flag)),
                other => quote!(Whole(#other)),
            },
            (Some(other), _) => quote!(Whole((#other) as i64)),
        }
    }
}

/// The type inside an `Option`, or the type itself.
fn inside_option(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Option") else { return ty };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return ty };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => inner,
        _ => ty,
    }
}

/// The first paragraph of a doc comment as one line, without its full stop.
fn meaning(attributes: &[Attribute]) -> String {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| {
            match &attribute.meta {
                Meta::NameValue(pair) => match &pair.value {
                    Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_string()),
                    _ => None,
                },
                _ => None,
            }
        });
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    text.strip_suffix('.').unwrap_or(&text).to_string()
}
