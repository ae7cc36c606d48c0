//! The archive that the kernel boots from: busybox, modules, a script. Its format is cpio's "newc": an entry has a
//! header of 110 characters, a name and contents, and the last two are each padded to a multiple of 4 bytes.

use std::path::PathBuf;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DATA: u32 = 0o100_644;

/// Builds an archive with the modules, which are loaded in the given order, and the script `job`, which the guest runs.
pub(super) fn build(modules: &[PathBuf], job: &str) -> Result<Vec<u8>, String> {
    let mut archive = Vec::new();
    for folder in ["bin", "dev", "proc", "sys", "host", "modules"] {
        add(&mut archive, folder, FOLDER, &[]);
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find_map(|path| std::fs::read(path).ok());
    add(&mut archive, "bin/busybox", PROGRAM, &busybox.ok_or("busybox cannot be read")?);
    let mut order = String::new();
    for (number, module) in modules.iter().enumerate() {
        let contents = std::fs::read(module).map_err(|error| format!("{}: {error}", module.display()))?;
        let name = format!("modules/{number:03}.ko");
        add(&mut archive, &name, DATA, &contents);
        order.push_str(&name);
        order.push('\n');
    }
    add(&mut archive, "modules/order", DATA, order.as_bytes());
    add(&mut archive, "job", PROGRAM, job.as_bytes());
    add(&mut archive, "init", PROGRAM, include_bytes!("init.sh"));
    add(&mut archive, "TRAILER!!!", 0, &[]);
    Ok(archive)
}

fn add(archive: &mut Vec<u8>, name: &str, mode: u32, contents: &[u8]) {
    // Number, mode, owner, group, links, time, bytes, device (2), special device (2), bytes of the name, checksum.
    let number = archive.len() as u32;
    let fields = [number, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(contents);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Vec::new();
        add(&mut archive, "ab", DATA, b"12345");
        // 110 characters, the name and its terminator: 113, padded to 116; five bytes, padded to eight.
        assert_eq!((archive.len(), &archive[116..121]), (124, &b"12345"[..]));
        assert_eq!(&archive[54..62], b"00000005", "bytes of the contents");
        assert_eq!(&archive[94..102], b"00000003", "bytes of the name");
    }
}
