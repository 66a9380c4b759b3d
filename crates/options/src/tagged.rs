//! An enum whose variants have options: tables that the key `kind` tells apart.

use crate::default_of;
use crate::field::Field;
use crate::words::{kebab, word};
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Path, parse_quote};

pub(crate) fn of_enum(mut item: DeriveInput, base: &Path) -> Result<proc_macro2::TokenStream, Error> {
    let name = item.ident.clone();
    let Data::Enum(data) = &mut item.data else { unreachable!("the caller has looked") };
    let (mut functions, mut declarations, mut arms) = (Vec::new(), Vec::new(), Vec::new());
    let mut default = None;
    for variant in &mut data.variants {
        let (ident, word) = (variant.ident.clone(), word(variant));
        let prefix = kebab(&ident.to_string()).replace('-', "_");
        let mut fields = Vec::new();
        match &mut variant.fields {
            Fields::Unit => {}
            Fields::Named(named) => {
                for field in &mut named.named {
                    let read = Field::take(field)?;
                    if read.is_flattened {
                        return Err(Error::new_spanned(&read.ident, "`flatten` is for structs"));
                    }
                    if read.default.is_some() {
                        let path = format!("{name}::{}", read.default_function(&prefix));
                        field.attrs.push(parse_quote!(#[serde(default = #path)]));
                    }
                    fields.push(read);
                }
            }
            Fields::Unnamed(_) => {
                return Err(Error::new_spanned(
                    &ident,
                    "options have names: write a variant with named fields",
                ));
            }
        }
        let has_fields = !fields.is_empty();
        if has_fields && variant.attrs.iter().any(|attribute| attribute.path().is_ident("default")) {
            variant.attrs.retain(|attribute| !attribute.path().is_ident("default"));
            let values = fields.iter().map(|field| {
                let (field, function) = (&field.ident, field.default_function(&prefix));
                quote!(#field: #name::#function())
            });
            default = Some(quote! {
                impl ::std::default::Default for #name {
                    fn default() -> #name {
                        #name::#ident { #(#values),* }
                    }
                }
            });
        }
        functions.extend(fields.iter().filter_map(|field| default_of(field, &prefix)));
        declarations.extend(fields.iter().map(|field| {
            let function = field.default_function(&prefix);
            let one = field.declaration(&quote!(#name::#function), base);
            quote!(#one.of_kind(#word))
        }));
        let checked = fields.iter().filter_map(|field| {
            let ident = &field.ident;
            Some((ident, field.check(&quote!((*#ident)), base)?))
        });
        let (idents, checks): (Vec<_>, Vec<_>) = checked.unzip();
        arms.push(quote!(#name::#ident { #(#idents,)* .. } => { #(#checks)* }));
    }
    let described = quote!(#base::options::describe::<#name>);
    Ok(quote! {
        #[derive(::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(transform = #described)]
        #item

        impl #name {
            #(#functions)*
        }

        #default

        impl #base::options::Options for #name {
            fn declared() -> ::std::vec::Vec<#base::options::Described> {
                ::std::vec![#(#declarations),*]
            }

            fn check_ranges(&self) -> ::std::result::Result<(), #base::options::BuildError> {
                match self {
                    #(#arms)*
                }
                ::std::result::Result::Ok(())
            }
        }
    })
}
