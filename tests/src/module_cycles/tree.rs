//! Parses the modules of a crate and resolves paths between them.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

type Path = Vec<String>;

/// Limit of the steps to resolve a path: two globs may import each other.
const MAX_STEPS: usize = 16;

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = [
    "const", "enum", "fn", "static", "struct", "trait", "type", "union",
];

/// The text of a file, if it exists.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A module: a file, or a `mod x { … }` within one.
#[derive(Default)]
pub(super) struct Module {
    /// `tools::exec`; the root is `crate`.
    pub(super) name: String,
    pub(super) file: String,
    /// The folder of its children's files.
    folder: String,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    /// Imported names and their paths.
    imports: HashMap<String, Path>,
    globs: Vec<Path>,
    items: HashSet<String>,
    /// Every path in it, with its line.
    paths: Vec<(usize, Path)>,
}

/// The places of each dependency, as `line: path`, by the indexes of the two modules.
pub(super) type Edges = BTreeMap<(usize, usize), Vec<String>>;

/// The target of a path: a module, or an item that it defines.
enum Target {
    Module(usize),
    Item(usize),
}

/// All modules of a crate, the root first.
pub(super) struct Tree<'a> {
    pub(super) modules: Vec<Module>,
    read: Read<'a>,
}

impl<'a> Tree<'a> {
    /// Reads the crate whose root is the file `root`.
    pub(super) fn new(root: &str, read: Read<'a>) -> Self {
        let folder = root.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let crate_module = Module {
            name: "crate".to_owned(),
            file: root.to_owned(),
            folder: folder.to_owned(),
            ..Module::default()
        };
        let modules = vec![crate_module];
        let mut tree = Self { modules, read };
        tree.scan(0, tree.tokens(root).unwrap(), true);
        tree
    }

    fn tokens(&self, file: &str) -> Option<TokenStream> {
        let tokens = (self.read)(file)?.parse();
        Some(tokens.unwrap_or_else(|error| panic!("{file}: {error}")))
    }

    /// Reads the tokens of a module; items count only at its top level.
    fn scan(&mut self, at: usize, tokens: TokenStream, top: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &*tokens;
        while let [first, more @ ..] = rest {
            rest = match (first, more) {
                (TokenTree::Punct(punct), [TokenTree::Group(attribute), item @ ..])
                    if punct.as_char() == '#' && is_test(&attribute.to_string()) =>
                {
                    after_item(item)
                }
                (TokenTree::Group(group), _) => {
                    self.scan(at, group.stream(), false);
                    more
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), body, after @ ..])
                    if word == "mod" =>
                {
                    self.add(at, &name.to_string(), body);
                    after
                }
                (TokenTree::Ident(word), [next, ..]) if word == "use" && !is(next, '<') => {
                    let end = more.iter().position(|token| is(token, ';'));
                    let (tree, after) = more.split_at(end.unwrap());
                    self.modules[at].import(tree, &[]);
                    after
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), ..])
                    if top && ITEMS.contains(&&*word.to_string()) =>
                {
                    self.modules[at].items.insert(name.to_string());
                    more
                }
                (TokenTree::Ident(name), _) => {
                    let (path, after) = path(rest);
                    let line = name.span().start().line;
                    if path.len() > 1 {
                        self.modules[at].paths.push((line, path));
                    }
                    after
                }
                _ => more,
            };
        }
    }

    /// Adds the module `name { … }` or `name;` to its parent.
    fn add(&mut self, parent: usize, name: &str, body: &TokenTree) {
        let Module { folder, file, .. } = &self.modules[parent];
        let folder = format!("{folder}/{name}");
        let (file, tokens) = match body {
            TokenTree::Group(group) => (file.clone(), group.stream()),
            _ => {
                let file = format!("{folder}.rs");
                let tokens = self.tokens(&file);
                let tokens = tokens.unwrap_or_else(|| panic!("{file} is missing"));
                (file, tokens)
            }
        };
        let full_name = match parent {
            0 => name.to_owned(),
            _ => format!("{}::{name}", self.modules[parent].name),
        };
        let at = self.modules.len();
        let parent_module = &mut self.modules[parent];
        parent_module.children.insert(name.to_owned(), at);
        self.modules.push(Module {
            name: full_name,
            file,
            folder,
            parent: Some(parent),
            ..Module::default()
        });
        self.scan(at, tokens, true);
    }

    /// The dependencies between modules, without those of a module on its direct parent.
    pub(super) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (from, module) in self.modules.iter().enumerate() {
            for (line, path) in &module.paths {
                // An import of a module names no item of it.
                if let Some(Target::Item(to)) = self.follow(from, path, MAX_STEPS)
                    && to != from
                    && Some(to) != module.parent
                {
                    let place = format!("{line}: {}", path.join("::"));
                    edges.entry((from, to)).or_default().push(place);
                }
            }
        }
        edges
    }

    /// Resolves `path` in the module `at`; `None` if it leaves the crate.
    fn follow(&self, at: usize, path: &[String], steps: usize) -> Option<Target> {
        let Some((name, rest)) = path.split_first() else {
            return Some(Target::Module(at));
        };
        let steps = steps.checked_sub(1)?;
        let module = &self.modules[at];
        match &**name {
            "crate" => return self.follow(0, rest, steps),
            "self" => return self.follow(at, rest, steps),
            "super" => return self.follow(module.parent?, rest, steps),
            _ => {}
        }
        let item = || module.items.contains(name).then_some(Target::Item(at));
        let child = || self.follow(*module.children.get(name)?, rest, steps);
        let imported = || match self.follow(at, module.imports.get(name)?, steps)? {
            Target::Module(module) => self.follow(module, rest, steps),
            // The rest of the path is a variant or an associated function.
            item => Some(item),
        };
        let from_globs = || {
            let mut globs = module.globs.iter();
            globs.find_map(|glob| match self.follow(at, glob, steps)? {
                Target::Module(module) => self.follow(module, path, steps),
                Target::Item(_) => None,
            })
        };
        // A function and a module may have the same name.
        let found = match rest {
            [] => item().or_else(imported).or_else(child),
            _ => child().or_else(item).or_else(imported),
        };
        found.or_else(from_globs)
    }
}

impl Module {
    /// Reads a tree of a `use` after the path `before`.
    fn import(&mut self, tree: &[TokenTree], before: &[String]) {
        let (own, rest) = path(tree);
        let mut path = [before, &own].concat();
        match rest {
            [.., TokenTree::Group(group)] => {
                let trees: Vec<_> = group.stream().into_iter().collect();
                for tree in trees.split(|token| is(token, ',')) {
                    self.import(tree, &path);
                }
            }
            [.., star] if is(star, '*') => self.globs.push(path),
            _ if own.is_empty() => {}
            _ => {
                if path.last().is_some_and(|name| name == "self") {
                    path.pop();
                }
                let name = match rest {
                    [_as, name] => name.to_string(),
                    _ => path[path.len() - 1].clone(),
                };
                let line = tree[0].span().start().line;
                self.paths.push((line, path.clone()));
                self.imports.insert(name, path);
            }
        }
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// The path `a::b::c` at the start of the tokens, and the rest.
fn path(tokens: &[TokenTree]) -> (Path, &[TokenTree]) {
    let mut path = vec![];
    let mut rest = tokens;
    while let [TokenTree::Ident(name), after @ ..] = rest {
        path.push(name.to_string());
        rest = after;
        match after {
            [one, two, after @ ..] if is(one, ':') && is(two, ':') => rest = after,
            _ => break,
        }
    }
    (path, rest)
}

/// Returns true if an attribute restricts an item to tests.
fn is_test(attribute: &str) -> bool {
    let text: String = attribute.split_whitespace().collect();
    text.ends_with("test]") || text.ends_with("(test)]") || text.contains("::test(")
}

/// The rest after an item.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let end = tokens.iter().position(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ';'),
    });
    end.map_or(&[], |end| &tokens[end + 1..])
}
