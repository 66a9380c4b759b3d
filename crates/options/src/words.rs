//! An enum whose variants are words.

use crate::field::renamed;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Path, Variant};

pub(crate) fn of_enum(item: &DeriveInput, base: &Path) -> Result<proc_macro2::TokenStream, Error> {
    let name = &item.ident;
    let Data::Enum(data) = &item.data else { unreachable!("the caller has looked") };
    let mut arms = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a word has no fields"));
        }
        let (ident, word) = (&variant.ident, word(variant));
        arms.push(quote!(#name::#ident => #word));
    }
    Ok(quote! {
        #[derive(::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #item

        impl #base::options::Value for #name {
            fn say(&self) -> ::std::string::String {
                ::std::format!("{:?}", match self { #(#arms),* })
            }
        }
    })
}

/// How a stack file writes the variant.
pub(crate) fn word(variant: &Variant) -> String {
    renamed(&variant.attrs).unwrap_or_else(|| kebab(&variant.ident.to_string()))
}

/// `GcHint` as `gc-hint`, the way serde does it.
pub(crate) fn kebab(ident: &str) -> String {
    let mut word = String::new();
    for (i, letter) in ident.char_indices() {
        if letter.is_uppercase() && i > 0 {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::kebab;

    #[test]
    fn a_variant_is_said_as_a_file_writes_it() {
        assert_eq!((kebab("GcHint"), kebab("First")), ("gc-hint".into(), "first".into()));
    }
}
