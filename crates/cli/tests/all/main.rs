//! The real binary, in processes of its own, on good and on bad input: exit codes, stdout, and what stderr says.

mod bench;
mod configuration;
mod damage;
mod demo;
mod deploy;
mod entries;
mod etcd;
mod files;
mod handbook;
mod machine;
mod netns;
mod pools;
mod processes;
mod radix;
mod remedies;
mod serve;
mod simulator;
mod spatial;
mod terminal;
