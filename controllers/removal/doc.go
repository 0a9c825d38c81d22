// Package removal begins the teardown of what nobody declares and nobody uses any more. The admission only marks a Host,
// a Network or an Image that VMs use, so that a document that was taken away by mistake and is put back changes nothing; this
// controller looks at what is marked whenever it changes, and so when the last finalizer of its users goes. It imports
// resources and chain; the composition root builds one for each of resources.RemovalKinds.
package removal
