//! Generates the header and the reference page of the C interface from the sources, and fails when they are
//! out of date.
//!
//! ```text
//!   src/types.rs, src/api/ ─ syn ─► items ─┬─► include/pellucid/prism.h
//!                                            └─► docs/reference/prism-c.md
//! ```

use quote::ToTokens;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use syn::{Attribute, Expr, FnArg, Item, Lit, Meta, ReturnType, Type};

const WIDTH: usize = 110;

/// Declaration in the header.
struct Declared {
    section: String,
    /// Entry in the index of the reference.
    name: String,
    /// Paragraphs of the comment.
    doc: Vec<String>,
    /// Declaration in C, with comments inside.
    code: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the paragraphs of a comment. A section `# Safety` becomes a paragraph that begins with `Needs: `.
fn doc(attributes: &[Attribute]) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut requires = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(value) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &value.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        let line = line.value();
        match line.trim() {
            "" => paragraphs.push(String::new()),
            "# Safety" => requires = true,
            line => {
                let begins = line.starts_with("- ");
                if begins && !paragraphs.last().expect("one").is_empty() {
                    paragraphs.push(String::new());
                }
                let last = paragraphs.last_mut().expect("one");
                if std::mem::take(&mut requires) {
                    last.push_str("Needs: ");
                }
                if !last.is_empty() && !last.ends_with(' ') {
                    last.push(' ');
                }
                last.push_str(line);
            }
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// Converts `PrismFoundBlock` to `prism_found_block`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Returns a type in C, with the stars of a pointer.
fn c_type(ty: &Type) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let inner = c_type(&pointer.elem);
            let qualifier = if pointer.const_token.is_some() { "const " } else { "" };
            match inner.ends_with('*') {
                true => format!("{inner}*"),
                false => format!("{qualifier}{inner} *"),
            }
        }
        Type::Path(path) => {
            let name = path.path.segments.last().expect("a type has a name").ident.to_string();
            match name.as_str() {
                "u32" => "uint32_t".into(),
                "u64" => "uint64_t".into(),
                "f32" => "float".into(),
                "f64" => "double".into(),
                "c_char" => "char".into(),
                "c_void" => "void".into(),
                name if name.starts_with("Prism") => snake(name),
                other => panic!("{other}: no type of C that is known here"),
            }
        }
        other => panic!("{}: no type of C that is known here", other.to_token_stream()),
    }
}

fn declare(ty: &Type, name: &str) -> String {
    let ty = c_type(ty);
    if ty.ends_with('*') { format!("{ty}{name}") } else { format!("{ty} {name}") }
}

/// Formats a comment of C.
fn comment(paragraphs: &[String], indent: &str) -> String {
    let mut lines = Vec::new();
    for (number, paragraph) in paragraphs.iter().enumerate() {
        if number > 0 && !paragraph.starts_with("- ") {
            lines.push(String::new());
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if line.len() + word.len() + indent.len() + 4 > WIDTH {
                lines.push(std::mem::take(&mut line));
                if paragraph.starts_with("- ") {
                    line.push(' ');
                }
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    match &lines[..] {
        [one] if one.len() + indent.len() + 6 <= WIDTH => format!("{indent}/* {one} */\n"),
        lines => {
            let body = lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned() + "\n");
            format!("{indent}/*\n{}{indent} */\n", body.collect::<String>())
        }
    }
}

fn declared(item: &Item, section: &str) -> Option<Declared> {
    let section = section.to_owned();
    match item {
        Item::Const(item) if matches!(item.vis, syn::Visibility::Public(_)) => {
            let name = item.ident.to_string();
            let code = format!("#define {name} {}\n", item.expr.to_token_stream());
            Some(Declared { section, name, doc: doc(&item.attrs), code })
        }
        Item::Struct(item) if matches!(item.vis, syn::Visibility::Public(_)) => {
            let name = snake(&item.ident.to_string());
            let is_open = item.attrs.iter().any(|attribute| attribute.path().is_ident("repr"));
            let fields = item.fields.iter().map(|field| {
                let field_name = field.ident.as_ref().expect("fields have names").to_string();
                comment(&doc(&field.attrs), "    ") + &format!("    {};\n", declare(&field.ty, &field_name))
            });
            let code = match is_open {
                true => format!("typedef struct {name} {{\n{}}} {name};\n", fields.collect::<String>()),
                false => format!("typedef struct {name} {name};\n"),
            };
            Some(Declared { section, name, doc: doc(&item.attrs), code })
        }
        Item::Enum(item) if matches!(item.vis, syn::Visibility::Public(_)) => {
            let name = snake(&item.ident.to_string());
            let variants = item.variants.iter().map(|variant| {
                let (_, value) = variant.discriminant.as_ref().expect("variants have values");
                let variant_name = format!("{name}_{}", snake(&variant.ident.to_string())).to_uppercase();
                comment(&doc(&variant.attrs), "    ")
                    + &format!("    {variant_name} = {},\n", value.to_token_stream())
            });
            let code = format!("typedef enum {name} {{\n{}}} {name};\n", variants.collect::<String>());
            Some(Declared { section, name, doc: doc(&item.attrs), code })
        }
        Item::Fn(item) if item.sig.abi.is_some() => {
            let name = item.sig.ident.to_string();
            let argument = |argument: &FnArg| {
                let FnArg::Typed(typed) = argument else { panic!("{name}: an argument without a type") };
                declare(&typed.ty, &typed.pat.to_token_stream().to_string())
            };
            let arguments: Vec<String> = item.sig.inputs.iter().map(argument).collect();
            let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
            let head = match &item.sig.output {
                ReturnType::Type(_, ty) => declare(ty, &name),
                ReturnType::Default => format!("void {name}"),
            };
            Some(Declared { section, name, doc: doc(&item.attrs), code: format!("{head}({arguments});\n") })
        }
        _ => None,
    }
}

/// Reads every declaration of a source. A line `// ---- Name` begins a section.
fn read(source: &str, first: &str) -> Vec<Declared> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).expect("a source");
    let file = syn::parse_file(&text).expect("Rust");
    let section_of = |needle: &str| {
        let end = text.find(needle).unwrap_or(0);
        let before = text[..end].rfind("\n// ---- ").map(|at| &text[at + 9..]);
        before.map_or(first, |rest| rest.lines().next().expect("a line")).to_owned()
    };
    let items = file.items.iter().filter_map(|item| {
        let needle = match item {
            Item::Fn(item) => format!("fn {}(", item.sig.ident),
            _ => String::new(),
        };
        declared(item, &section_of(&needle))
    });
    items.collect()
}

fn all() -> Vec<Declared> {
    let mut declared = read("src/types.rs", "Types");
    // Handles precede the functions that take them.
    let files = ["mod", "drives", "levels", "raw", "function", "policy", "queue"];
    let items = files.iter().flat_map(|file| read(&format!("src/api/{file}.rs"), "Types"));
    let (handles, functions): (Vec<_>, Vec<_>) = items.partition(|item| item.code.starts_with("typedef"));
    declared.extend(handles);
    declared.extend(functions);
    declared
}

fn header(declared: &[Declared]) -> String {
    let mut text = String::from(
        "/*\n * The flash library: raw flash, flash functions, and a translation with the policy of one's choice.\n *\n \
         * Made from the sources by `PELLUCID_WRITE_REFERENCE=1 cargo test -p pellucid-prism-c --test header`: changes go\n \
         * there. The reference is docs/reference/prism-c.md.\n *\n \
         * Threads: any function may be called by any thread at any time, with any handle that is open. Calls on one drive and\n \
         * its levels take turns, so a call waits for the one before. A handle is closed once, when no other call has it.\n \
         * `prism_error` is of the calling thread.\n */\n\
         #ifndef PELLUCID_PRISM_H\n#define PELLUCID_PRISM_H\n\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {\n#endif\n",
    );
    let mut section = "";
    for item in declared {
        if item.section != section {
            section = &item.section;
            let _ = write!(text, "\n/* ---- {section} */\n");
        }
        let _ = write!(text, "\n{}{}", comment(&item.doc, ""), item.code);
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
}

fn reference(declared: &[Declared]) -> String {
    let mut text = String::from(
        "# The C interface of the flash library\n\n\
         `#include <pellucid/prism.h>`; [how to link it](../how-to/link-the-flash-library.md), and \
         [which level to choose](../explanation/flash-library.md). This page is made from the sources, as the header is: \
         `PELLUCID_WRITE_REFERENCE=1 cargo test -p pellucid-prism-c --test header`.\n\n\
         Where a function does not return `PRISM_STATUS_OK`, `prism_error()` has a sentence. Any function may be called by any thread at any time, with \
         any handle that is open; calls on one drive and its levels take turns. *Needs* says what the caller answers for: the \
         library cannot check a pointer.\n",
    );
    let mut section = "";
    for item in declared {
        if section != item.section {
            section = &item.section;
            let _ = write!(text, "\n## {section}\n");
        }
        let _ = write!(text, "\n### `{}`\n\n```c\n{}```\n", item.name, item.code);
        for paragraph in &item.doc {
            let gap = if paragraph.starts_with("- ") { "" } else { "\n" };
            let paragraph = match paragraph.strip_prefix("Needs: ") {
                Some(needs) => format!("*Needs:* {needs}"),
                None => paragraph.clone(),
            };
            let _ = writeln!(text, "{gap}{paragraph}");
        }
    }
    text
}

fn current(path: &Path, made: &str) {
    if std::env::var_os("PELLUCID_WRITE_REFERENCE").is_some() {
        std::fs::write(path, made).expect("written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == made,
        "{} is out of date; PELLUCID_WRITE_REFERENCE=1 cargo test -p pellucid-prism-c --test header makes it anew",
        path.display()
    );
}

#[test]
fn the_header_is_that_of_the_sources() {
    current(&root().join("crates/prism-c/include/pellucid/prism.h"), &header(&all()));
}

#[test]
fn the_reference_is_that_of_the_sources() {
    current(&root().join("docs/reference/prism-c.md"), &reference(&all()));
}

/// Checks that the library's soname carries the number of the interface.
#[test]
fn the_version_is_the_same_everywhere() {
    let build = std::fs::read_to_string(root().join("crates/prism-c/build.rs")).expect("a source");
    let version = pellucid_prism_c::PRISM_API_VERSION;
    assert!(build.contains(&format!("libpellucid-prism.so.{version}\"")));
    assert_eq!(pellucid_prism_c::prism_api_version(), version);
}

/// Checks that every status has a name.
#[test]
fn every_status_has_a_name() {
    let statuses = all().into_iter().find(|item| item.name == "prism_status").expect("declared");
    for number in 0..statuses.code.matches(" = ").count() as u32 {
        let name = pellucid_prism_c::prism_status_name(number);
        assert_ne!(name, pellucid_prism_c::prism_status_name(u32::MAX), "status {number}");
    }
}
