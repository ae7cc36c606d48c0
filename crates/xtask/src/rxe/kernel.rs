//! Debian's kernel, downloaded and unpacked but not installed. It stays in `target/rxe` until Debian has a newer one.

use super::output_of;
use std::path::{Path, PathBuf};

/// The package that depends on the current kernel. The cloud kernel has no Soft-RoCE.
const PACKAGE: &str = "linux-image-amd64";

/// Modules for the console's bus, the host's files, Soft-RoCE, and two interfaces.
const MODULES: [&str; 8] =
    ["virtio_pci", "9pnet_virtio", "9p", "rdma_rxe", "ib_uverbs", "veth", "crc32_generic", "crc32c_generic"];

/// A Linux kernel package that is unpacked in a folder.
#[derive(Debug)]
pub(super) struct Kernel {
    folder: PathBuf,
    version: String,
    /// The file to boot.
    pub(super) image: PathBuf,
}

/// Finds the kernel, or downloads it with Debian's tools.
pub(super) fn fetch(work: &Path) -> Result<Kernel, String> {
    let asked = ["depends", "--no-recommends", "--no-suggests", PACKAGE];
    let depends = output_of("apt-cache", &asked, work).unwrap_or_default();
    let named = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let version = match named {
        Some(version) => version.trim().to_owned(),
        None => {
            downloaded_version(work).ok_or_else(|| format!("apt knows no {PACKAGE}; run apt-get update"))?
        }
    };
    let folder = work.join(format!("linux-{version}"));
    let image = folder.join(format!("boot/vmlinuz-{version}"));
    if !image.exists() {
        let package = format!("linux-image-{version}");
        output_of("apt-get", &["download", &package], work)?;
        let name = format!("{package}_");
        let downloaded = files(work)?.into_iter().find(|file| file.starts_with(&name));
        let downloaded = downloaded.ok_or_else(|| format!("apt-get downloaded no {package}"))?;
        output_of("dpkg-deb", &["--extract", &downloaded, &folder.to_string_lossy()], work)?;
        output_of("depmod", &["--basedir", &folder.to_string_lossy(), &version], work)?;
        std::fs::remove_file(work.join(&downloaded)).map_err(|error| format!("{downloaded}: {error}"))?;
    }
    Ok(Kernel { folder, version, image })
}

/// The version of a kernel from an earlier run.
fn downloaded_version(work: &Path) -> Option<String> {
    let mut all: Vec<_> = files(work)
        .ok()?
        .into_iter()
        .filter_map(|file| Some(file.strip_prefix("linux-")?.to_owned()))
        .collect();
    all.sort();
    all.pop()
}

fn files(folder: &Path) -> Result<Vec<String>, String> {
    let refuse = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(refuse)?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

impl Kernel {
    /// The modules, each after its dependencies.
    pub(super) fn modules(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.folder.to_string_lossy();
        let mut all: Vec<PathBuf> = Vec::new();
        for module in MODULES {
            let asked = ["--dirname", &folder, "--set-version", &self.version, "--show-depends", module];
            let needed = output_of("modprobe", &asked, &self.folder)?;
            // Other lines name modules that are part of the kernel.
            let files = needed.lines().filter_map(|line| line.strip_prefix("insmod "));
            for file in files.map(|file| PathBuf::from(file.trim())) {
                if !all.contains(&file) {
                    all.push(file);
                }
            }
        }
        Ok(all)
    }
}
