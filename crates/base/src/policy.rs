//! Policies as values: what a machine's option chooses among, open to other crates.
//!
//! A [`Family`] is one such choice: replacement in a cache, the victim of collection, the scheduler of a queue. A policy of
//! it is declared in its own file by the type of its options: name, source, one line of help, how the verified simulation
//! draws it ([`Declared`]), and how it is built, by the trait of its family. [`Policy`] is that declaration as a value; a
//! [`Registry`] holds those of a program. Lists, schemas, curves, sweeps and conformance tests read the registry.
//!
//! An option of a machine is a [`Chosen`]. It is read from a stack file in two steps: the policies of this project are
//! known at once, any other when the registry of the program has been asked ([`Chosen::settle`]). From then on it holds
//! the options behind a pointer; the family's trait makes the machine from them with the policy's own type, so the code
//! of a request is the same whether a policy is of this project or of another crate.

use crate::options::{Described, Options};
use crate::registry::{BuildError, Registry, nearest};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// One choice of a machine that is open to policies of other crates.
pub trait Family: 'static {
    /// Its name in lists: `replacement`.
    const NAME: &'static str;
    /// The name of its definition in the schema of stack files.
    const SCHEMA: &'static str;
    /// What the choice decides.
    const SUMMARY: &'static str;
    /// The options of any policy of the family, and what can be made of them.
    type Options: ?Sized + Options + Send + Sync + 'static;

    /// The policies of this project.
    fn builtin() -> &'static [Policy];
}

/// What the file of a policy declares, whatever its family. Implemented for the type of its options, which `#[options]` declares: an option
/// that is out of its range is refused wherever a policy is read, and so is one that it does not have.
pub trait Declared: Options + DeserializeOwned + JsonSchema + fmt::Debug + Send + Sync + 'static {
    /// The word after `kind =`.
    const NAME: &'static str;
    /// One line of help.
    const SUMMARY: &'static str;
    /// Where it was published; empty for what has no source.
    const SOURCE: &'static str;
    /// Options with which the verified simulation draws it, as the inside of an inline table; each as often as any other.
    const DRAWS: &'static [&'static str] = &[""];
}

/// Reads the options of a policy of the family `F`.
pub type ReadOptions<F> =
    &'static (dyn Fn(toml::Table) -> Result<Arc<<F as Family>::Options>, toml::de::Error> + Send + Sync);

/// What the type of its options declares of a policy, said while a program runs: of a policy that comes from another language.
/// [`Policy::late`] makes one of it.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// See [`Declared::NAME`].
    pub name: String,
    /// See [`Declared::SUMMARY`].
    pub summary: String,
    /// See [`Declared::SOURCE`].
    pub source: String,
    /// See [`Declared::DRAWS`].
    pub draws: Vec<String>,
    /// JSON schema of its options, whose `properties` name them.
    pub schema: Schema,
}

/// A policy that a registry holds.
#[derive(Clone, Copy)]
pub struct Policy {
    /// Its [`Family::NAME`].
    pub family: &'static str,
    /// The word after `kind =`.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// See [`Declared::DRAWS`].
    pub draws: &'static [&'static str],
    /// JSON schema of its options.
    pub schema: &'static (dyn Fn() -> Schema + Send + Sync),
    /// What is declared of each option; nothing of a policy whose schema says all.
    pub declared: fn() -> Vec<Described>,
    /// What the family makes of it: a [`ReadOptions`], or for a family without options in stack files the thing itself.
    pub item: &'static (dyn Any + Send + Sync),
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.family, self.name)
    }
}

impl Policy {
    /// The policy of `F` whose options are `C`, read by `read`, a reference to a [`ReadOptions<F>`]. Families have a function of
    /// their own for it, `policy::<C>()`.
    pub const fn new<F: Family, C: Declared>(read: &'static ReadOptions<F>) -> Policy {
        Policy::of::<C>(F::NAME, read)
    }

    /// The policy of a family without options in stack files, declared by `C`: what its family makes of it is `item`.
    pub const fn of<C: Declared>(family: &'static str, item: &'static (dyn Any + Send + Sync)) -> Policy {
        Policy {
            family,
            name: C::NAME,
            summary: C::SUMMARY,
            source: C::SOURCE,
            draws: C::DRAWS,
            schema: &const { schema_of::<C> },
            declared: C::declared,
            item,
        }
    }

    /// The policy of `F` that is declared while the program runs, with options that `read` reads. It stays in memory until the
    /// program ends, as those do that are compiled in.
    pub fn late<F: Family>(
        declaration: Declaration,
        read: impl Fn(toml::Table) -> Result<Arc<F::Options>, toml::de::Error> + Send + Sync + 'static,
    ) -> Policy {
        let word = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let Declaration { name, summary, source, draws, schema } = declaration;
        let draws: Vec<&'static str> = draws.into_iter().map(word).collect();
        let read: ReadOptions<F> = Box::leak(Box::new(read));
        Policy {
            family: F::NAME,
            name: word(name),
            summary: word(summary),
            source: word(source),
            draws: Box::leak(draws.into_boxed_slice()),
            schema: Box::leak(Box::new(move || schema.clone())),
            declared: Vec::new,
            item: Box::leak(Box::new(read)),
        }
    }

    fn read<F: Family>(&self, table: toml::Table) -> Result<Arc<F::Options>, toml::de::Error> {
        if let Some(key) = table.keys().find(|key| !self.has_option(key)) {
            let others = F::builtin().iter().filter(|policy| policy.has_option(key)).map(|p| p.name);
            let others: Vec<&str> = others.collect();
            let whose =
                if others.is_empty() { String::new() } else { format!(", but {} has", others.join(", ")) };
            let why = format!("{} `{}` has no option `{key}`{whose}", self.family, self.name);
            return Err(toml::de::Error::custom(why));
        }
        let read = self.item.downcast_ref::<ReadOptions<F>>();
        read.expect("a policy carries the reader of its family")(table)
    }
}

impl Policy {
    /// Whether it has this option.
    pub fn has_option(&self, key: &str) -> bool {
        (self.schema)().get("properties").is_some_and(|properties| properties.get(key).is_some())
    }
}

fn schema_of<C: JsonSchema>() -> Schema {
    schemars::schema_for!(C)
}

/// A policy of the family `F`, with its options.
pub struct Chosen<F: Family> {
    name: String,
    table: toml::Table,
    /// What was read, or which option is out of its range; nothing as long as nobody knows the policy.
    options: Option<Result<Arc<F::Options>, BuildError>>,
}

/// The options, if they are within their ranges.
fn checked<O: ?Sized + Options>(options: Arc<O>) -> Result<Arc<O>, BuildError> {
    options.check_ranges().map(|()| options)
}

impl<F: Family> Chosen<F> {
    /// The policy called `name` with the options of `table`, where this project has it; any other is left for
    /// [`settle`](Chosen::settle).
    pub fn new(name: &str, table: toml::Table) -> Result<Chosen<F>, toml::de::Error> {
        let known = F::builtin().iter().find(|policy| policy.name == name);
        let options = known.map(|policy| policy.read::<F>(table.clone())).transpose()?;
        Ok(Chosen { name: name.into(), table, options: options.map(checked) })
    }

    /// The policy of this project called `name`, with its defaults. Panics when there is none.
    pub fn named(name: &str) -> Chosen<F> {
        let chosen = Chosen::new(name, toml::Table::new()).expect("a policy has defaults");
        assert!(chosen.options.is_some(), "no {} is called `{name}`", F::NAME);
        chosen
    }

    /// A policy of `registry` by name, with its defaults.
    ///
    /// # Errors
    /// There is none of this name, or it has an option without a default.
    pub fn of(name: &str, registry: &Registry) -> Result<Chosen<F>, BuildError> {
        let mut chosen = Chosen { name: name.into(), table: toml::Table::new(), options: None };
        chosen.settle(F::NAME, registry)?;
        Ok(chosen)
    }

    /// Looks the policy up in `registry` unless it is known. `option` is the machine's option that holds it.
    ///
    /// # Errors
    /// There is none of this name, or its options are wrong or out of their ranges: `option.KEY`.
    pub fn settle(&mut self, option: &str, registry: &Registry) -> Result<(), BuildError> {
        if self.options.is_none() {
            let Some(policy) = registry.policy(F::NAME, &self.name) else {
                return Err(
                    unknown::<F>(&self.name, registry.policies(F::NAME).map(|p| p.name)).within(option)
                );
            };
            let read = policy.read::<F>(self.table.clone());
            let read = read.map_err(|e| BuildError::at("kind", e.message().trim_end()).within(option))?;
            self.options = Some(checked(read));
        }
        match &self.options {
            Some(Err(error)) => Err(error.clone().within(option)),
            _ => Ok(()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its options, with all that can be made of them.
    ///
    /// # Errors
    /// An option is out of its range, or the policy is none of this project and no registry was asked for it.
    pub fn options(&self) -> Result<&F::Options, BuildError> {
        match &self.options {
            Some(Ok(options)) => Ok(options),
            Some(Err(error)) => Err(error.clone()),
            None => Err(unknown::<F>(&self.name, F::builtin().iter().map(|p| p.name)).within(F::NAME)),
        }
    }
}

fn unknown<F: Family>(name: &str, known: impl Iterator<Item = &'static str> + Clone) -> BuildError {
    let near = nearest(name, known.clone());
    let near = near.map_or_else(|| ".".into(), |near| format!("; did you mean `{near}`?"));
    let all = known.collect::<Vec<_>>().join(", ");
    BuildError::at("kind", format!("unknown {} `{name}`{near} Known: {all}", F::NAME))
}

impl<F: Family> Clone for Chosen<F> {
    fn clone(&self) -> Chosen<F> {
        Chosen { name: self.name.clone(), table: self.table.clone(), options: self.options.clone() }
    }
}

impl<F: Family> fmt::Debug for Chosen<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.table)
    }
}

impl<F: Family> PartialEq for Chosen<F> {
    fn eq(&self, other: &Chosen<F>) -> bool {
        (&self.name, &self.table) == (&other.name, &other.table)
    }
}

/// `{ kind = "lru", ... }`, or the name alone for a policy with its defaults.
impl<'de, F: Family> Deserialize<'de> for Chosen<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Chosen<F>, D::Error> {
        let read = |name: &str, table| {
            Chosen::new(name, table).map_err(|error| D::Error::custom(error.message().trim_end()))
        };
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(name) => read(&name, toml::Table::new()),
            toml::Value::Table(mut table) => {
                let Some(toml::Value::String(name)) = table.remove("kind") else {
                    return Err(D::Error::missing_field("kind"));
                };
                read(&name, table)
            }
            other => {
                let why = format!("{} is a name or a table with a `kind`, not {other}", F::NAME);
                Err(D::Error::custom(why))
            }
        }
    }
}

/// A mark that [`Registry`] readers replace by the policies of the family: see [`POLICIES`].
impl<F: Family> JsonSchema for Chosen<F> {
    fn schema_name() -> Cow<'static, str> {
        F::SCHEMA.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": F::SUMMARY, POLICIES: F::NAME })
    }
}

/// The key of a schema that stands for all policies of a family: a table that `kind` tells apart, or the name of one.
pub const POLICIES: &str = "x-policies";
/// The same for a table that has other options beside those of the policy.
pub const POLICIES_BESIDE: &str = "x-policies-beside";
/// The same for a policy without options, named by a word.
pub const POLICY_NAMES: &str = "x-policy-names";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    /// Fruit, for want of a machine that takes any.
    struct Fruits;

    #[options]
    #[derive(Debug)]
    struct Pear {
        #[option(default = 3, range = 1..=9)]
        stones: u32,
    }

    impl Declared for Pear {
        const NAME: &'static str = "pear";
        const SUMMARY: &'static str = "A pear.";
        const SOURCE: &'static str = "";
    }

    #[options]
    #[derive(Debug)]
    struct Quince {
        #[option(default)]
        raw: bool,
        #[option(default = 2, range = 1..=4)]
        slices: u32,
    }

    impl Declared for Quince {
        const NAME: &'static str = "quince";
        const SUMMARY: &'static str = "A quince.";
        const SOURCE: &'static str = "";
    }

    trait Fruit: Options + Send + Sync {
        fn stones(&self) -> u32;
    }

    impl Fruit for Pear {
        fn stones(&self) -> u32 {
            self.stones
        }
    }

    impl Fruit for Quince {
        fn stones(&self) -> u32 {
            u32::from(self.raw)
        }
    }

    const fn fruit<C: Declared + Fruit>() -> Policy {
        let read: &'static ReadOptions<Fruits> = &const { &|table| Ok(Arc::new(C::deserialize(table)?)) };
        Policy::new::<Fruits, C>(read)
    }

    static SHIPPED: [Policy; 1] = [fruit::<Pear>()];

    impl Family for Fruits {
        const NAME: &'static str = "fruit";
        const SCHEMA: &'static str = "Fruit";
        const SUMMARY: &'static str = "Which fruit.";
        type Options = dyn Fruit;

        fn builtin() -> &'static [Policy] {
            &SHIPPED
        }
    }

    fn read(text: &str) -> Result<Chosen<Fruits>, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn one_of_ours_is_known_at_once_and_one_from_outside_when_the_registry_was_asked() {
        let ours = read("kind = \"pear\"\nstones = 7").expect("a pear");
        assert_eq!(ours.options().map(|fruit| fruit.stones()), Ok(7));
        #[derive(Deserialize)]
        struct Basket {
            fruit: Chosen<Fruits>,
        }
        let word: Basket = toml::from_str("fruit = \"pear\"").expect("a name is enough");
        assert_eq!(word.fruit.options().map(|fruit| fruit.stones()), Ok(3));
        assert!(
            toml::from_str::<Basket>("fruit = 3").is_err_and(|e| e.message().contains("a name or a table"))
        );
        let mut theirs = read("kind = \"quince\"\nraw = true").expect("nobody knows yet");
        assert!(theirs.options().is_err_and(|error| error.reason.contains("Known: pear")));
        let registry = Registry::new().with(&SHIPPED[..]).with(fruit::<Quince>());
        theirs.settle("fruit", &registry).expect("the registry has it");
        assert_eq!(theirs.options().map(|fruit| fruit.stones()), Ok(1));
    }

    #[test]
    fn a_wrong_name_and_a_wrong_option_name_what_is_near() {
        let registry = Registry::new().with(&SHIPPED[..]).with(fruit::<Quince>());
        let mut wrong = read("kind = \"quinze\"").expect("nobody knows yet");
        let error = wrong.settle("fruit", &registry).expect_err("there is none");
        assert!(
            error.key.as_deref() == Some("fruit.kind") && error.reason.contains("did you mean `quince`?"),
            "{error}"
        );
        let mut strange = read("kind = \"quince\"\nstones = 2").expect("nobody knows yet");
        let error = strange.settle("fruit", &registry).expect_err("a quince has none");
        assert!(error.reason.contains("`quince` has no option `stones`, but pear has"), "{error}");
        assert!(read("kind = \"pear\"\nstones = \"two\"").is_err());
    }

    #[test]
    fn an_option_out_of_its_range_is_refused_with_its_place_whoever_made_the_policy() {
        let registry = Registry::new().with(&SHIPPED[..]).with(fruit::<Quince>());
        for (text, key, reason) in [
            ("kind = \"pear\"\nstones = 0", "stones", "0 is out of bounds: 1 to 9"),
            ("kind = \"quince\"\nslices = 5", "slices", "5 is out of bounds: 1 to 4"),
        ] {
            let mut chosen = read(text).expect("it can be read");
            let error = chosen.settle("basket.fruit", &registry).expect_err(text);
            assert_eq!(error, BuildError::at(format!("basket.fruit.{key}"), reason));
            assert_eq!(chosen.options().err(), Some(BuildError::at(key, reason)));
        }
    }

    #[test]
    fn one_that_is_declared_late_is_like_any_other() {
        let schema = schemars::json_schema!({ "properties": { "raw": { "type": "boolean" } } });
        let declaration = Declaration {
            name: "medlar".into(),
            summary: "A medlar.".into(),
            source: String::new(),
            draws: vec!["raw = true".into()],
            schema,
        };
        let read = |table: toml::Table| -> Result<Arc<dyn Fruit>, toml::de::Error> {
            Ok(Arc::new(Quince::deserialize(table)?))
        };
        let registry = Registry::new().with(&SHIPPED[..]).with(Policy::late::<Fruits>(declaration, read));
        let mut chosen = self::read("kind = \"medlar\"\nraw = true").expect("nobody knows yet");
        chosen.settle("fruit", &registry).expect("the registry has it");
        assert_eq!(chosen.options().map(|fruit| fruit.stones()), Ok(1));
        let mut strange = self::read("kind = \"medlar\"\nstones = 2").expect("nobody knows yet");
        let error = strange.settle("fruit", &registry).expect_err("a medlar has none");
        assert!(error.reason.contains("`medlar` has no option `stones`, but pear has"), "{error}");
    }

    #[test]
    #[should_panic(expected = "fruit `pear` is registered twice")]
    fn a_name_is_taken_once() {
        let _ = Registry::new().with(fruit::<Pear>()).with(fruit::<Pear>());
    }
}
