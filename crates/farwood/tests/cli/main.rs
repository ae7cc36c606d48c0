//! The real binary, in processes of its own, on good and on bad input: exit codes, stdout, and what stderr says.

mod configuration;
mod damage;
mod entries;
mod etcd;
mod files;
mod handbook;
mod machine;
mod pools;
mod processes;
mod radix;
mod remedies;
mod serve;
mod spatial;
mod terminal;
