//! The attribute `#[options]`: an option says once, at its field, what its default is and what it may be.
//!
//! `nandu_base::options` re-exports it and has what the code made here calls; its documentation shows the forms.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

mod field;
mod tagged;
mod words;

use field::Field;
use proc_macro::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Path, parse_macro_input, parse_quote};

/// Declares the options of a machine or policy, or the words among which an option chooses.
///
/// On a struct it derives `Deserialize`, refusing unknown options, and `JsonSchema`, and implements `nandu_base::options::Options` from what
/// `#[option(...)]` says of each field:
///
/// - `default` or `default = VALUE`: the option may be left out; without a value `Default` says what it is then. An `Option` may be left out anyway.
/// - `range = LOW..=HIGH`, `range = LOW..`, `range = ..=HIGH`, `above = LOW`, `below = HIGH`, `power_of_two`, `multiple_of = STEP`: what it may be. Of a list
///   they bound each element.
/// - `off = "never"`: zero is allowed besides and means this.
/// - `table`: the field has options of its own, in a table of its name.
/// - `flatten`: the field has options of its own, which stand among these. An option that nobody knows is then refused by the schema alone.
/// - `note = "as in the paper"`, `unset = "4, with \"fifo\" 1"` and `also = "room for 8 entries"` complete the sentence of the reference: words behind the
///   default, the default of an option that depends on others, and a bound that needs more than this field.
///
/// Where every option has a default it implements `Default`, otherwise it adds `with_defaults`, which takes the others.
///
/// On an enum of which a variant has options it does the same for each variant, which the key `kind` names in kebab case. A variant with options may be
/// the `#[default]` when each of them has a default.
///
/// On an enum without fields it derives `Deserialize`, in kebab case, and `JsonSchema`, and makes it a value that a sentence can say.
///
/// `#[options(crate = path)]` names the crate that has the module `options`, when that is not `nandu_base`.
#[proc_macro_attribute]
pub fn options(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut base: Path = parse_quote!(::nandu_base);
    let arguments_of = syn::meta::parser(|meta| {
        if !meta.path.is_ident("crate") {
            return Err(meta.error("only `crate = path` is known here"));
        }
        base = meta.value()?.call(Path::parse_mod_style)?;
        Ok(())
    });
    parse_macro_input!(arguments with arguments_of);
    let item = parse_macro_input!(item as DeriveInput);
    let made = match &item.data {
        Data::Struct(_) => of_struct(item, &base),
        Data::Enum(data) if data.variants.iter().all(|variant| variant.fields.is_empty()) => {
            words::of_enum(&item, &base)
        }
        Data::Enum(_) => tagged::of_enum(item, &base),
        Data::Union(_) => Err(Error::new_spanned(&item.ident, "options are a struct or an enum")),
    };
    made.unwrap_or_else(Error::into_compile_error).into()
}

/// Whether an attribute `name` of the list holds the word, as `derive(Default)` does.
fn says(attributes: &[Attribute], name: &str, word: &str) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident(name)).any(|attribute| {
        let mut found = false;
        // What it cannot read, its own macro refuses.
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident(word);
            if meta.input.peek(syn::Token![=]) {
                meta.value()?.parse::<proc_macro2::TokenTree>()?;
            }
            Ok(())
        });
        found
    })
}

fn of_struct(mut item: DeriveInput, base: &Path) -> Result<proc_macro2::TokenStream, Error> {
    let name = item.ident.clone();
    let has_own_default = says(&item.attrs, "derive", "Default") || says(&item.attrs, "serde", "default");
    let Data::Struct(data) = &mut item.data else { unreachable!("the caller has looked") };
    let Fields::Named(named) = &mut data.fields else {
        return Err(Error::new_spanned(&name, "options have names: write a struct with named fields"));
    };
    let mut fields = Vec::new();
    for field in &mut named.named {
        let read = Field::take(field)?;
        if read.default.is_some() && !read.is_flattened {
            let path = format!("{name}::{}", read.default_function(""));
            field.attrs.push(parse_quote!(#[serde(default = #path)]));
        }
        fields.push(read);
    }
    let functions = fields.iter().map(|field| default_of(field, ""));
    let declarations = fields.iter().map(|field| {
        let (function, ty) = (field.default_function(""), &field.ty);
        match field.is_flattened {
            true => quote!(#base::options::flattened::<#ty>()),
            false => {
                let one = field.declaration(&quote!(#name::#function), base);
                quote!([#one])
            }
        }
    });
    let checks = fields.iter().filter_map(|field| {
        let ident = &field.ident;
        field.check(&quote!(self.#ident), base)
    });
    let constructor = if has_own_default { None } else { Some(constructor(&name, &fields, &item.vis)) };
    // Serde cannot refuse what nobody knows where options are flattened.
    let unknown = match fields.iter().any(|field| field.is_flattened) {
        true => quote!(#[schemars(extend("additionalProperties" = false))]),
        false => quote!(#[serde(deny_unknown_fields)]),
    };
    let described = quote!(#base::options::describe::<#name>);
    Ok(quote! {
        #[derive(::serde::Deserialize, ::schemars::JsonSchema)]
        #unknown
        #[schemars(transform = #described)]
        #item

        impl #name {
            #(#functions)*
        }

        #constructor

        impl #base::options::Options for #name {
            fn declared() -> ::std::vec::Vec<#base::options::Described> {
                #[allow(unused_mut)]
                let mut all = ::std::vec::Vec::new();
                #(all.extend(#declarations);)*
                all
            }

            fn check_ranges(&self) -> ::std::result::Result<(), #base::options::BuildError> {
                #(#checks)*
                ::std::result::Result::Ok(())
            }
        }
    })
}

/// The function that makes the default of a field, if it has one.
fn default_of(field: &Field, variant: &str) -> Option<proc_macro2::TokenStream> {
    let (function, ty, value) = (field.default_function(variant), &field.ty, field.default.as_ref()?);
    Some(quote! { fn #function() -> #ty { #value } })
}

/// `Default`, or `with_defaults` for what has options that must be given.
fn constructor(
    name: &syn::Ident,
    fields: &[Field],
    visibility: &syn::Visibility,
) -> proc_macro2::TokenStream {
    let required: Vec<&Field> = fields.iter().filter(|field| field.is_required()).collect();
    let values = fields.iter().map(|field| {
        let ident = &field.ident;
        match () {
            () if field.is_required() => quote!(#ident),
            () if field.default.is_some() => {
                let function = field.default_function("");
                quote!(#ident: #name::#function())
            }
            () => quote!(#ident: ::std::option::Option::None),
        }
    });
    if required.is_empty() {
        return quote! {
            impl ::std::default::Default for #name {
                fn default() -> #name {
                    #name { #(#values),* }
                }
            }
        };
    }
    let (idents, types) = (required.iter().map(|f| &f.ident), required.iter().map(|f| &f.ty));
    quote! {
        impl #name {
            /// These options, and every other one at its default.
            #[allow(dead_code, clippy::too_many_arguments)]
            #visibility fn with_defaults(#(#idents: #types),*) -> #name {
                #name { #(#values),* }
            }
        }
    }
}
