//! Lists the files of the page in `web/dist`, for the server to embed. Without these files the list is empty: a build
//! of the server never builds the page.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let web = variable("CARGO_MANIFEST_DIR").join("../../web");
    let dist = web.join("dist");
    let mut entries = Vec::new();
    if env::var_os("CARGO_FEATURE_UI").is_some() {
        // For cargo, a missing path has changed at every build.
        if let Some(watched) = [&dist, &web].into_iter().find(|dir| dir.is_dir()) {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
        if dist.join("index.html").is_file() {
            add(&dist, &dist, &mut entries)?;
        }
    }
    entries.sort();
    fs::write(variable("OUT_DIR").join("page.rs"), format!("&[{}]", entries.concat()))
}

/// Adds the files below `dir` to `entries`. A file with the ending `.br` is the compressed form of another file.
fn add(dist: &Path, dir: &Path, entries: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            add(dist, &path, entries)?;
        } else if path.extension().is_none_or(|ending| ending != "br") {
            let name = path.strip_prefix(dist).expect("the file is below dist");
            let brotli = PathBuf::from(format!("{}.br", path.display()));
            let brotli = brotli.is_file().then(|| format!("include_bytes!({brotli:?})"));
            let brotli = brotli.map_or_else(|| "None".into(), |bytes| format!("Some({bytes})"));
            entries.push(format!(
                "PageFile {{ name: {name:?}, bytes: include_bytes!({path:?}), brotli: {brotli} }},\n"
            ));
        }
    }
    Ok(())
}
