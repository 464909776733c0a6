// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who uses whom: the modules of a crate, read from its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::Visit;

/// The modules that each module uses, by their paths: `ext::batch`. The crate's root has no
/// name and is left out: it only lists the others. What a `mod` item declares is no use, but
/// what is re-exported is.
#[derive(Default)]
pub struct Graph(BTreeMap<String, BTreeSet<String>>);

impl Graph {
    /// Reads all files of a source directory.
    pub fn of_crate(source: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(source, &[], &mut files);
        Self::of_files(&files)
    }

    /// From the texts of modules, by their paths.
    pub fn of_files(files: &BTreeMap<Vec<String>, String>) -> Self {
        let mut graph = Self::default();
        for (module, text) in files {
            let mut uses = Uses {
                module,
                paths: Vec::new(),
            };
            match syn::parse_file(text) {
                Ok(file) => uses.visit_file(&file),
                Err(error) => panic!("{}: {error}", module.join("::")),
            }
            let reached = uses.paths.iter().filter_map(|path| owner(path, files));
            let others = reached.filter(|used| used != module && !used.is_empty());
            let others = others.map(|used| used.join("::")).collect();
            if !module.is_empty() {
                graph.0.insert(module.join("::"), others);
            }
        }
        graph
    }

    /// The same, with all modules of a folder as one.
    pub fn of_folders(&self) -> Self {
        let folder = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
        let mut graph = Self::default();
        for (module, uses) in &self.0 {
            let others = graph.0.entry(folder(module)).or_default();
            others.extend(uses.iter().map(|used| folder(used)));
            others.remove(&folder(module));
        }
        graph
    }

    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn used_by(&self, module: &str) -> impl Iterator<Item = &str> {
        self.0.get(module).into_iter().flatten().map(String::as_str)
    }

    /// A shortest circle, as the modules in it, the first once more at the end.
    pub fn circle(&self) -> Option<Vec<&str>> {
        let circles = self.modules().filter_map(|module| self.way(module, module));
        circles.min_by_key(Vec::len)
    }

    /// The shortest way of at least one step.
    fn way<'a>(&'a self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut ways = vec![vec![from]];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                for next in way.last().into_iter().flat_map(|last| self.used_by(last)) {
                    let mut way = way.clone();
                    way.push(next);
                    if next == to {
                        return Some(way);
                    }
                    if seen.insert(next) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
        None
    }
}

fn collect(directory: &Path, module: &[String], files: &mut BTreeMap<Vec<String>, String>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"));
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut child = module.to_vec();
        if path.is_dir() {
            child.push(name.into());
            collect(&path, &child, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            if !["lib", "main", "mod"].contains(&name.as_ref()) {
                child.push(name.into());
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            files.insert(child, text);
        }
    }
}

/// The module that a path leads into: the longest beginning of it that is one.
fn owner(path: &[String], files: &BTreeMap<Vec<String>, String>) -> Option<Vec<String>> {
    (0..=path.len())
        .rev()
        .filter_map(|length| path.get(..length))
        .find(|start| files.contains_key(*start))
        .map(<[String]>::to_vec)
}

/// Collects the paths of a module's file, from the crate's root on.
struct Uses<'a> {
    module: &'a [String],
    paths: Vec<Vec<String>>,
}

impl Uses<'_> {
    /// A path as written, if it is one of this crate.
    fn add(&mut self, written: &[String]) {
        let mut written = written.iter();
        let mut path = match written.next().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self") => self.module.to_vec(),
            Some("super") => self.parent(),
            // A child of this module, or nothing of this crate.
            Some(first) => [self.module, &[first.to_owned()]].concat(),
            None => return,
        };
        for name in written {
            if name == "super" {
                path.pop();
            } else {
                path.push(name.clone());
            }
        }
        self.paths.push(path);
    }

    fn parent(&self) -> Vec<String> {
        let mut parent = self.module.to_vec();
        parent.pop();
        parent
    }

    fn add_tree(&mut self, start: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [start, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.add(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.add(start),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(start, tree);
                }
            }
        }
    }
}

/// Tests may use what they like.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|what| what == "test")
    })
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|one| one.ident.to_string())
            .collect();
        self.add(&names);
        syn::visit::visit_path(self, path);
    }

    /// Macros are not expanded: what looks like a path in their input is taken for one.
    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        for path in paths_in(invocation.tokens.to_string().as_str()) {
            self.add(&path);
        }
        syn::visit::visit_macro(self, invocation);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.visit_macro(&item.mac);
    }
}

/// `a :: b :: c` in a text of tokens.
fn paths_in(tokens: &str) -> Vec<Vec<String>> {
    let mut paths: Vec<Vec<String>> = Vec::new();
    let mut goes_on = false;
    for word in tokens.split_whitespace() {
        let is_name = word
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_');
        match (word, paths.last_mut()) {
            ("::", _) => goes_on = true,
            (_, Some(path)) if is_name && goes_on => {
                path.push(word.to_owned());
                goes_on = false;
            }
            _ if is_name => {
                paths.push(vec![word.to_owned()]);
                goes_on = false;
            }
            _ => goes_on = false,
        }
    }
    paths.retain(|path| path.len() > 1);
    paths
}
