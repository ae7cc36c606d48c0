//! Names the library that Cargo links as the installed one is named, so that a program needs the same file of both.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfarwood.so.0");
}
