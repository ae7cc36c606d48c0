//! The login manager of systemd, which removes a user's files in `/dev/shm` when the user logs out.
//!
//! `RemoveIPC` of logind.conf(5) is on by default. It applies to users that are not system users, when their last
//! session ends; a user that lingers has a session as long as the machine runs. Processes that the user has started in
//! the background, and containers with the user's number, then lose their pools.

use super::Finding;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory that logind empties.
const EMPTIED: &str = "/dev/shm";
/// The largest number of a system user.
const SYSTEM_USER_MAX: u32 = 999;
/// A directory that exists if systemd runs.
const SYSTEMD: &str = "/run/systemd/system";
/// The directories of the configuration; a later one overrides an earlier one.
const CONFIGURATION: [&str; 3] = ["/usr/lib/systemd", "/run/systemd", "/etc/systemd"];
const LINGERING: &str = "/var/lib/systemd/linger";

/// The treatment of a user's shared memory when the user logs out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Logout {
    /// Whether it is removed.
    removes: bool,
    /// Users that do not log out as long as the machine runs.
    lingering: BTreeSet<u32>,
}

impl Logout {
    /// Reads the configuration of this machine.
    pub(super) fn of_machine() -> Self {
        let removes =
            Path::new(SYSTEMD).is_dir() && removes_ipc(&configuration(&CONFIGURATION.map(Path::new)));
        let lingering =
            fs::read_dir(LINGERING).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self { removes, lingering: numbers(lingering, &users) }
    }

    /// The problem of the pools in `directory` that belong to these users.
    pub(super) fn finding(&self, directory: &Path, owners: impl Iterator<Item = u32>) -> Option<Finding> {
        if !self.removes || !directory.starts_with(EMPTIED) {
            return None;
        }
        let loses = |owner: &u32| *owner > SYSTEM_USER_MAX && !self.lingering.contains(owner);
        let owner = owners.filter(loses).min()?;
        Some(Finding {
            what: format!(
                "logind removes the pools of user {owner} when that user's last session ends (RemoveIPC=yes), also \
                 while processes are attached"
            ),
            remedy: format!(
                "loginctl enable-linger {owner}    (or RemoveIPC=no in /etc/systemd/logind.conf, and systemctl \
                 restart systemd-logind)"
            ),
        })
    }
}

/// The numbers of users with these names, from the text of `/etc/passwd`.
fn numbers(names: impl Iterator<Item = OsString>, users: &str) -> BTreeSet<u32> {
    let names: BTreeSet<OsString> = names.collect();
    let number = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        if names.contains(std::ffi::OsStr::new(name)) { number.parse().ok() } else { None }
    };
    users.lines().filter_map(number).collect()
}

/// The texts of the configuration in the order in which they apply: the main file, then its additions by name.
fn configuration(directories: &[&Path]) -> Vec<String> {
    let mut files: Vec<PathBuf> = directories
        .iter()
        .map(|directory| directory.join("logind.conf"))
        .filter(|file| file.is_file())
        .collect();
    // Only one main file applies.
    files.drain(..files.len().saturating_sub(1));
    let additions =
        directories.iter().filter_map(|directory| fs::read_dir(directory.join("logind.conf.d")).ok());
    let mut additions: Vec<PathBuf> = additions.flatten().flatten().map(|entry| entry.path()).collect();
    additions.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
    // The sort is stable, so files of the same name stay in the order of their directories.
    additions.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
    files.extend(additions);
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// Whether `RemoveIPC` is on in a configuration; the last setting applies.
fn removes_ipc(texts: &[String]) -> bool {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "RemoveIPC").then(|| value.trim().to_ascii_lowercase())
    };
    let last = texts.iter().flat_map(|text| text.lines()).filter_map(value).next_back();
    !last.is_some_and(|value| matches!(value.as_str(), "no" | "n" | "false" | "f" | "off" | "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removing() -> Logout {
        Logout { removes: true, lingering: BTreeSet::from([1001]) }
    }

    #[test]
    fn a_user_who_logs_out_loses_pools() {
        let finding = removing().finding(Path::new("/dev/shm"), [0, 1000, 1001].into_iter()).unwrap();
        assert!(finding.what.contains("user 1000") && finding.what.contains("RemoveIPC=yes"), "{finding:?}");
        assert!(finding.remedy.starts_with("loginctl enable-linger 1000"), "{finding:?}");
        assert!(finding.remedy.contains("RemoveIPC=no in /etc/systemd/logind.conf"), "{finding:?}");
    }

    #[test]
    fn other_users_lose_no_pool() {
        let at = |logout: &Logout, directory: &str, owner| {
            logout.finding(Path::new(directory), [owner].into_iter())
        };
        assert_eq!(at(&removing(), "/dev/shm", 0), None, "root");
        assert_eq!(at(&removing(), "/dev/shm", 999), None, "a system user");
        assert_eq!(at(&removing(), "/dev/shm", 1001), None, "a user who lingers");
        assert_eq!(at(&removing(), "/mnt/shm", 1000), None, "another directory");
        assert_eq!(at(&Logout::default(), "/dev/shm", 1000), None, "no logind");
        assert!(at(&removing(), "/dev/shm/below", 1000).is_some(), "logind descends");
    }

    #[test]
    fn the_last_setting_applies() {
        let removes =
            |texts: &[&str]| removes_ipc(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert!(removes(&[]), "the default");
        assert!(removes(&["[Login]\n#RemoveIPC=no\n"]), "a comment");
        assert!(!removes(&["[Login]\nRemoveIPC=no\n"]));
        assert!(!removes(&["[Login]\nRemoveIPC=yes\n", "[Login]\n RemoveIPC = Off \n"]));
        assert!(removes(&["[Login]\nRemoveIPC=no\nRemoveIPC=yes\n"]));
    }

    #[test]
    fn files_of_the_configuration_are_read_in_their_order() {
        let root = tempfile::TempDir::new().unwrap();
        let [low, high] = ["usr", "etc"].map(|name| root.path().join(name));
        for (directory, file, text) in [
            (&low, "logind.conf", "low"),
            (&high, "logind.conf", "high"),
            (&high, "logind.conf.d/10.conf", "ten"),
            (&low, "logind.conf.d/20.conf", "twenty"),
            (&low, "logind.conf.d/30.txt", "no configuration"),
        ] {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(configuration(&[&low, &high]), ["high", "ten", "twenty"]);
    }

    #[test]
    fn users_who_linger_are_found_by_name() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\n";
        assert_eq!(numbers(["bob".into(), "eve".into()].into_iter(), users), BTreeSet::from([1001]));
    }
}
