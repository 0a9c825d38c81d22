// Package image brings the files of images to the hosts, and writes ImageStatus. It imports the hypervisor port, the policy of
// config, resources, the store's interfaces and chain; the composition root builds it.
//
// An image of a URL is fetched once to every host that takes VMs: streamed from the server through the gateway to the host,
// with the checksum computed on the way. On the host its file has the checksum in its name, so that another content is another
// file, and what disks start from never changes. A file that is not complete is never used, whoever was killed meanwhile; it is
// made anew. An image that is a path is used where it is.
//
// The work for one image on one host is a job in a goroutine of its own: a reconcile starts it, shows how far it is, and takes
// its outcome. Every job begins by looking at the host: what is there already is not fetched again, and files that nobody
// declares and no disk starts from are removed.
package image
