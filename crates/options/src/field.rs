//! What `#[option(...)]` says of one field.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, GenericArgument, Ident, LitStr, Path, PathArguments, Token, Type, parse_quote};

/// A field and what is said of it.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Its name in a stack file.
    name: String,
    /// Its default as an expression.
    pub(crate) default: Option<TokenStream>,
    /// Calls that make its bounds.
    bounds: TokenStream,
    is_bounded: bool,
    is_table: bool,
    /// Its options stand among those of its owner.
    pub(crate) is_flattened: bool,
    note: Option<LitStr>,
    unset: Option<LitStr>,
    also: Option<LitStr>,
}

/// `name` or `name = value`, the value up to the next comma.
struct Part {
    name: Ident,
    value: TokenStream,
}

impl Parse for Part {
    fn parse(input: ParseStream<'_>) -> Result<Part, Error> {
        let name: Ident = input.parse()?;
        let mut value = TokenStream::new();
        if input.parse::<Option<Token![=]>>()?.is_some() {
            while !input.is_empty() && !input.peek(Token![,]) {
                value.extend([input.parse::<TokenTree>()?]);
            }
            if value.is_empty() {
                return Err(Error::new_spanned(&name, "a value is missing after `=`"));
            }
        }
        Ok(Part { name, value })
    }
}

impl Field {
    /// Reads and removes the attribute of the field.
    pub(crate) fn take(field: &mut syn::Field) -> Result<Field, Error> {
        let ident = field.ident.clone().expect("the fields have names");
        let mut read = Field {
            name: renamed(&field.attrs).unwrap_or_else(|| ident.to_string()),
            ident,
            ty: field.ty.clone(),
            default: None,
            bounds: TokenStream::new(),
            is_bounded: false,
            is_table: false,
            is_flattened: false,
            note: None,
            unset: None,
            also: None,
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            field.attrs.drain(..).partition(|attribute| attribute.path().is_ident("option"));
        field.attrs = others;
        for attribute in ours {
            let parts = attribute
                .parse_args_with(syn::punctuated::Punctuated::<Part, Token![,]>::parse_terminated)?;
            for part in parts {
                read.add(part)?;
            }
        }
        if read.is_flattened {
            field.attrs.push(parse_quote!(#[serde(flatten)]));
        }
        Ok(read)
    }

    fn add(&mut self, Part { name, value }: Part) -> Result<(), Error> {
        let takes_none = name == "power_of_two" || name == "table" || name == "flatten";
        let takes_value = !takes_none && name != "default";
        if (takes_value && value.is_empty()) || (takes_none && !value.is_empty()) {
            let what = if takes_none { "no value" } else { "a value" };
            return Err(Error::new_spanned(&name, format!("`{name}` takes {what}")));
        }
        let call = match name.to_string().as_str() {
            "default" if value.is_empty() => {
                self.default = Some(quote!(::std::default::Default::default()));
                return Ok(());
            }
            "default" => {
                self.default = Some(value);
                return Ok(());
            }
            "note" => {
                self.note = Some(syn::parse2(value)?);
                return Ok(());
            }
            "unset" => {
                self.unset = Some(syn::parse2(value)?);
                return Ok(());
            }
            "also" => {
                self.also = Some(syn::parse2(value)?);
                return Ok(());
            }
            "table" => {
                self.is_table = true;
                return Ok(());
            }
            "flatten" => {
                self.is_flattened = true;
                return Ok(());
            }
            "range" => range(&name, value)?,
            "above" | "below" | "multiple_of" | "off" => quote!(.#name(#value)),
            "power_of_two" => quote!(.power_of_two()),
            _ => {
                let known = "default, range, above, below, power_of_two, multiple_of, off, table, flatten, note, unset, also";
                return Err(Error::new_spanned(&name, format!("`{name}` is not known here: {known}")));
            }
        };
        self.is_bounded = true;
        self.bounds.extend(call);
        Ok(())
    }

    /// The function that makes its default. `variant` is the one that has the field, in an enum.
    pub(crate) fn default_function(&self, variant: &str) -> Ident {
        match variant {
            "" => format_ident!("default_{}", self.ident),
            _ => format_ident!("default_{variant}_{}", self.ident),
        }
    }

    /// Whether it must be given.
    pub(crate) fn is_required(&self) -> bool {
        self.default.is_none() && inner(&self.ty, "Option").is_none()
    }

    /// The type that is bounded: of an `Option` or a list what is in it.
    fn bounded(&self) -> Type {
        let mut ty = &self.ty;
        for outer in ["Option", "Vec"] {
            ty = inner(ty, outer).unwrap_or(ty);
        }
        ty.clone()
    }

    fn all_bounds(&self, base: &Path) -> TokenStream {
        let (ty, bounds) = (self.bounded(), &self.bounds);
        quote!(#base::options::Bounds::<#ty>::any() #bounds)
    }

    /// The expression that describes it. `default` is the path of the function that makes its default.
    pub(crate) fn declaration(&self, default: &TokenStream, base: &Path) -> TokenStream {
        let name = &self.name;
        let mut calls = TokenStream::new();
        if self.default.is_some() && !self.is_table && self.unset.is_none() {
            calls.extend(quote!(.with_default(&#default())));
        }
        for (call, text) in [("noted", &self.note), ("unset", &self.unset), ("also", &self.also)] {
            if let Some(text) = text {
                let call = format_ident!("{call}");
                calls.extend(quote!(.#call(#text)));
            }
        }
        if self.is_table {
            let table = self.bounded();
            calls.extend(quote!(.table(<#table as #base::options::Options>::declared)));
        }
        if self.is_bounded {
            let bounds = self.all_bounds(base);
            let is_list = inner(&self.ty, "Vec").is_some();
            calls.extend(quote!(.bounded(&#bounds, #is_list)));
        }
        quote!(#base::options::Described::new(#name) #calls)
    }

    /// The statement that checks what `place` holds, if there is anything to check.
    pub(crate) fn check(&self, place: &TokenStream, base: &Path) -> Option<TokenStream> {
        let name = &self.name;
        if self.is_flattened {
            return Some(quote!(#base::options::Options::check_ranges(&#place)?;));
        }
        let one = |value: TokenStream| match self.is_table {
            true => quote!(#base::options::check_table(#name, #value)?;),
            false => quote!(#base::options::check(#name, #value, &bounds)?;),
        };
        if !self.is_table && !self.is_bounded {
            return None;
        }
        let body = match (inner(&self.ty, "Option"), inner(&self.ty, "Vec")) {
            (None, None) => one(quote!(&#place)),
            // At most one of an `Option`, all of a list.
            _ => {
                let check = one(quote!(value));
                quote!(for value in #place.iter() { #check })
            }
        };
        if self.is_table {
            return Some(body);
        }
        let bounds = self.all_bounds(base);
        Some(quote!({ let bounds = #bounds; #body }))
    }
}

/// What `#[serde(rename = "...")]` says.
pub(crate) fn renamed(attributes: &[Attribute]) -> Option<String> {
    let mut name = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        // What it cannot read, serde refuses.
        let _ = attribute.parse_nested_meta(|meta| {
            if !meta.input.peek(Token![=]) {
                return Ok(());
            }
            let value = meta.value()?.parse::<TokenTree>()?;
            if meta.path.is_ident("rename") {
                name = Some(syn::parse2::<LitStr>(value.into())?.value());
            }
            Ok(())
        });
    }
    name
}

/// `T` of `Outer<T>`.
fn inner<'a>(ty: &'a Type, outer: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == outer)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

/// `LOW..=HIGH`, `LOW..` or `..=HIGH` as calls.
fn range(name: &Ident, value: TokenStream) -> Result<TokenStream, Error> {
    let wrong = || Error::new_spanned(name, "a range is `LOW..=HIGH`, `LOW..` or `..=HIGH`");
    let tokens: Vec<TokenTree> = value.into_iter().collect();
    let is =
        |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == sign);
    let joint =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.spacing() == Spacing::Joint);
    let dots = (0..tokens.len()).find(|&at| is(at, '.') && joint(at) && is(at + 1, '.')).ok_or_else(wrong)?;
    let low: TokenStream = tokens[..dots].iter().cloned().collect();
    let closed = is(dots + 2, '=');
    let high: TokenStream = tokens[dots + 2 + usize::from(closed)..].iter().cloned().collect();
    if high.is_empty() == closed || (low.is_empty() && high.is_empty()) {
        return Err(wrong());
    }
    let low = (!low.is_empty()).then(|| quote!(.least(#low)));
    let high = (!high.is_empty()).then(|| quote!(.most(#high)));
    let calls: TokenStream = parse_quote!(#low #high);
    Ok(calls)
}
