//! The stack files that come with Nandu, the schema, and texts that are no stack at all.

use nandu_stack::{BuildOptions, Stack, StackFile, builtin, schema};
use proptest::prelude::*;
use std::path::PathBuf;

/// Every file of `stacks/`, by name.
fn shipped() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../stacks");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the stacks folder is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        (name, text)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_shipped_stack_can_be_built_and_says_what_it_is() {
    let files = shipped();
    assert!(files.len() >= 3);
    for (name, text) in files {
        let stack =
            StackFile::parse(&text, &name).and_then(|f| f.load(&builtin())).unwrap_or_else(|e| panic!("{e}"));
        stack.build(&BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("#:schema ./nandu.schema.json"), "{name}");
        assert!(lines.next().is_some_and(|l| l.starts_with("# ")), "{name} opens with what it is");
        assert!(text.contains(&format!("stacks/{name}")), "{name} says how it is run");
        assert!(stack.description.is_some(), "{name}");
    }
}

#[test]
fn the_schema_names_every_kind_and_key() {
    let registry = builtin();
    let schema = schema(&registry);
    let branches = schema["properties"]["device"]["additionalProperties"]["oneOf"]
        .as_array()
        .expect("one for each kind");
    assert_eq!(branches.len(), registry.kinds().len());
    for (kind, branch) in registry.kinds().iter().zip(branches) {
        assert_eq!(branch["properties"]["kind"]["const"], kind.name);
        assert!(branch["description"].as_str().is_some_and(|d| d.starts_with(kind.summary)));
        let own = (kind.schema)();
        for (key, _) in own.get("properties").and_then(|p| p.as_object()).into_iter().flatten() {
            assert!(branch["properties"].get(key).is_some(), "{}.{key}", kind.name);
            let option = &branch["properties"][key];
            assert!(option.get("description").is_some(), "{}.{key} has no description", kind.name);
        }
    }
}

/// The words that an option of the schema takes.
fn words_of<'a>(option: &'a serde_json::Value, schema: &'a serde_json::Value, words: &mut Vec<&'a str>) {
    match option {
        serde_json::Value::Object(object) => {
            let target = object.get("$ref").and_then(|r| schema.pointer(r.as_str()?.trim_start_matches('#')));
            target.iter().for_each(|target| words_of(target, schema, words));
            words.extend(object.get("const").and_then(|word| word.as_str()));
            object.values().for_each(|part| words_of(part, schema, words));
        }
        serde_json::Value::Array(parts) => {
            words.extend(parts.iter().filter_map(|word| word.as_str()));
            parts.iter().for_each(|part| words_of(part, schema, words));
        }
        _ => {}
    }
}

#[test]
fn a_default_that_help_names_is_a_word_of_its_option() {
    fn visit<'a>(part: &'a serde_json::Value, schema: &'a serde_json::Value, named: &mut usize) {
        let options = part.get("properties").and_then(|p| p.as_object());
        for (key, option) in options.into_iter().flatten() {
            let help = option.get("description").and_then(|text| text.as_str()).unwrap_or_default();
            for default in help.split("Default \"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let mut words = Vec::new();
                words_of(option, schema, &mut words);
                assert!(words.contains(&default), "{key}: {help} takes {words:?}");
                *named += 1;
            }
        }
        match part {
            serde_json::Value::Object(object) => object.values().for_each(|p| visit(p, schema, named)),
            serde_json::Value::Array(parts) => parts.iter().for_each(|p| visit(p, schema, named)),
            _ => {}
        }
    }
    let schema = schema(&builtin());
    let mut named = 0;
    visit(&schema, &schema, &mut named);
    assert!(named > 20, "{named} defaults are named");
}

#[test]
fn every_reference_of_the_schema_has_a_target() {
    fn visit(value: &serde_json::Value, refs: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(object) => {
                refs.extend(object.get("$ref").and_then(|r| r.as_str()).map(str::to_string));
                object.values().for_each(|v| visit(v, refs));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|v| visit(v, refs)),
            _ => {}
        }
    }
    let schema = schema(&builtin());
    let mut refs = Vec::new();
    visit(&schema, &mut refs);
    assert!(!refs.is_empty());
    for target in refs {
        let name = target.strip_prefix("#/$defs/").expect("every reference is local");
        assert!(schema["$defs"].get(name).is_some(), "{target}");
    }
}

const TWO: &str = "[export.b]\ndevice = \"s\"\n[export.a]\ndevice = \"m\"\ntenant = \"t\"\n[tenant.t]\nweight = 7\n\
    [device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n[device.s]\nkind = \"stripe\"\nlegs = [\"y\", \"x\"]\n\
    [device.x]\nkind = \"memory\"\nsize = \"1 MiB\"\n[device.y]\nkind = \"memory\"\nsize = \"1 MiB\"\n";

#[test]
fn devices_come_behind_their_children_in_the_order_of_the_exports() {
    let stack = Stack::parse(TWO).unwrap();
    let names: Vec<&str> = stack.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["y", "x", "s", "m"]);
    assert_eq!(stack.devices[2].children, [0, 1]);
    let exports: Vec<(&str, u32, u16)> =
        stack.exports.iter().map(|e| (e.name.as_str(), e.node, e.tenant.0)).collect();
    assert_eq!(exports, [("b", 2, 2), ("a", 3, 1)]);
    let tenants: Vec<(&str, u16)> = stack.tenants.iter().map(|t| (t.name.as_str(), t.table.weight)).collect();
    assert_eq!(tenants, [("t", 7), ("b", 100)]);
}

#[test]
fn the_hash_follows_the_meaning_and_not_the_text() {
    let hash = |text: &str| Stack::parse(text).unwrap().hash().to_string();
    assert_eq!(hash(TWO).len(), 12);
    let (front, back) = TWO.split_once("[device.x]").unwrap();
    let moved = format!("# A comment.\ndescription = \"x\"\n[device.x]{back}\n{front}");
    assert_eq!(hash(TWO), hash(&moved));
    assert_ne!(hash(TWO), hash(&TWO.replace("weight = 7", "weight = 8")));
    let set = StackFile::parse(TWO, "s").and_then(|f| f.with_set("tenant.t.weight", "8")).unwrap();
    assert_eq!(set.load(&builtin()).unwrap().hash(), hash(&TWO.replace("weight = 7", "weight = 8")));
}

#[test]
fn nesting_without_end_is_refused() {
    for text in [
        format!("[{}]", ["a"; 50_000].join(".")),
        format!("{} = 1", ["a"; 50_000].join(".")),
        format!("a = {}", "[".repeat(50_000)),
        format!("a = {}1{}", "{a=".repeat(5_000), "}".repeat(5_000)),
        format!("[a{}]", ".\"b\"".repeat(40_000)),
        "x".repeat(2 << 20),
    ] {
        assert!(StackFile::parse(&text, "s").is_err());
    }
    let path = format!("device.m{}", ".a".repeat(50_000));
    assert!(StackFile::parse(TWO, "s").unwrap().with_set(&path, "1").is_err());
}

/// Loads and builds whatever can be.
fn try_all(text: &str) {
    if let Ok(stack) = Stack::parse(text) {
        let _ = stack.build(&BuildOptions::default());
    }
}

/// A valid file and some spoiling of it.
fn spoiled() -> impl Strategy<Value = String> {
    let files: Vec<String> = shipped().into_iter().map(|f| f.1).chain([TWO.to_string()]).collect();
    let word = prop_oneof![
        Just("kind"),
        Just("device"),
        Just("= 7"),
        Just("[["),
        Just("]"),
        Just("= \"x\""),
        Just("{ kind = \"at\" }"),
        Just("= 99999999999999999999"),
        Just("= \"16777216 TiB\""),
        Just("\n"),
        Just("= 1e400"),
        Just("= 1979-05-27"),
        Just("= [[1]]"),
        Just("= nan"),
        Just("= -1"),
        Just("\u{7f}"),
        Just("é"),
        Just("\"below\" = \"b\""),
    ];
    let cut = (any::<prop::sample::Index>(), 0usize..40, word);
    (prop::sample::select(files), prop::collection::vec(cut, 1..5)).prop_map(|(mut text, cuts)| {
        for (index, len, word) in cuts {
            let mut from = index.index(text.len() + 1);
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            let mut to = (from + len).min(text.len());
            while !text.is_char_boundary(to) {
                to += 1;
            }
            text.replace_range(from..to, word);
        }
        text
    })
}

/// A valid file in which one value is another.
fn reassigned() -> impl Strategy<Value = String> {
    let files: Vec<String> = shipped().into_iter().map(|f| f.1).chain([TWO.to_string()]).collect();
    let value = prop_oneof![
        Just("0".to_string()),
        Just("-1".into()),
        Just("\"\"".into()),
        Just("[]".into()),
        Just("{}".into()),
        Just("true".into()),
        Just("0.5".into()),
        Just("[1, \"a\"]".into()),
        Just("\"1/3\"".into()),
        Just("inf".into()),
        any::<i64>().prop_map(|n| n.to_string()),
        (any::<u64>(), prop::sample::select(vec!["B", "KiB", "TiB", "ns", "h", "%", ""]))
            .prop_map(|(n, unit)| format!("\"{n} {unit}\"")),
    ];
    (prop::sample::select(files), any::<prop::sample::Index>(), value).prop_map(|(text, index, value)| {
        let lines: Vec<&str> = text.lines().collect();
        let keys: Vec<usize> =
            (0..lines.len()).filter(|&i| lines[i].contains(" = ") && !lines[i].starts_with('#')).collect();
        let chosen = keys[index.index(keys.len())];
        let change = |(i, line): (usize, &&str)| match line.split_once(" = ") {
            Some((key, _)) if i == chosen => format!("{key} = {value}\n"),
            _ => format!("{line}\n"),
        };
        lines.iter().enumerate().map(change).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_stack_or_an_error(text in "\\PC{0,200}") {
        try_all(&text);
    }

    #[test]
    fn a_spoiled_file_is_a_stack_or_an_error(text in spoiled()) {
        try_all(&text);
    }

    #[test]
    fn a_file_with_another_value_is_a_stack_or_an_error(text in reassigned()) {
        try_all(&text);
    }

    #[test]
    fn any_override_is_taken_or_refused(path in "(device|export|x)\\.[msx]?(\\.[a-z]{0,5}){0,3}", value in "\\PC{0,20}") {
        if let Ok(file) = StackFile::parse(TWO, "s").and_then(|f| f.with_set(&path, &value)) {
            let _ = file.load(&builtin());
        }
    }
}
