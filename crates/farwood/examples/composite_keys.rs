//! Keys of several components: all packages of one owner, those that begin with a text, and pages.
//!
//! `cargo run --example composite_keys`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::types::StartsWith;
use farwood::{Index, Pool, PoolOptions, Radix};

/// An owner, stored as its number. The index cannot be opened with other numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Owner(u32);
farwood::key_type!(Owner(u32), "owner");

/// Owner, name and version to the number of downloads.
type Packages = Index<(Owner, String, u16), u64>;

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-composite-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    // A radix tree, because the texts have any length.
    let packages: Packages = Pool::open(url)?.create_index("packages", &Radix::new())?;
    for (owner, name, versions) in
        [(7, "left", 1), (7, "left-pad", 3), (7, "right-pad", 2), (8, "left-pad", 1)]
    {
        for version in 1..=versions {
            packages.put((Owner(owner), name, version), 100 * u64::from(version))?;
        }
    }
    assert_eq!(packages.get((Owner(7), "left-pad", 2))?, Some(200));

    let counts = [
        packages.scan_prefix((Owner(7),)).count(),
        packages.scan_prefix((Owner(7), StartsWith("left"))).count(),
        packages.scan_prefix((Owner(7), "left")).count(),
    ];
    println!("owner 7: {} versions, {} of names with 'left', {} of 'left'", counts[0], counts[1], counts[2]);
    assert_eq!(counts, [6, 4, 1]);

    let (mut last, mut pages) = (None, Vec::new());
    loop {
        let rest = packages.prefix((Owner(7),)).limit(4);
        let rest = match &last {
            Some(last) => rest.after(last),
            None => rest,
        };
        let page: Vec<_> = rest.into_iter().collect::<farwood::Result<_>>()?;
        let Some((key, _)) = page.last() else { break };
        println!("a page of {} up to {key:?}", page.len());
        pages.push(page.len());
        last = Some(key.clone());
    }
    assert_eq!(pages, [4, 2]);

    // The newest version of each name, by a scan from the end.
    let newest = packages.scan_prefix((Owner(7), "left-pad")).next_back().transpose()?;
    assert_eq!(newest, Some(((Owner(7), "left-pad".to_owned(), 3), 300)));
    Ok(())
}
