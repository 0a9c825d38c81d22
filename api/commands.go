package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/google/uuid"

	"gateway/resources"
	"gateway/store"
)

// PowerRequest asks for a power state above the document: running, stopped, paused; declared ends the override.
type PowerRequest struct {
	VM    string             `json:"vm"`
	Power string             `json:"power"`
	For   resources.Duration `json:"for,omitempty"`
}

// DeclaredPower, instead of a power state, ends an override.
const DeclaredPower = "declared"

func (o *operations) power(w http.ResponseWriter, r *http.Request) error {
	var request PowerRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	if !slices.Contains([]string{resources.PowerRunning, resources.PowerStopped, resources.PowerPaused, DeclaredPower}, request.Power) {
		return usage("%q is not a power state", request.Power)
	}

	vm, err := o.vm(r.Context(), request.VM)
	if err != nil {
		return err
	}

	if request.Power == DeclaredPower {
		err = o.endOverride(r.Context(), request.VM)
	} else if resources.OriginOf(vm.Metadata()).Source == resources.OriginAPI && request.For == 0 {
		err = o.changePower(r.Context(), vm, request.Power, callerOf(r).ID)
	} else {
		err = o.override(r, vm, request)
	}

	if err != nil {
		return err
	}

	return o.done(w, r, "power "+request.Power, "VM/"+request.VM, request)
}

// changePower changes a VM that came by the API: only what somebody else declares is overridden. A power state that an earlier
// command laid above it for a time ends with it.
func (o *operations) changePower(ctx context.Context, vm *resources.VMConfig, power, cause string) error {
	changed := vm.DeepCopy().(*resources.VMConfig) //nolint:forcetypeassert // a copy has its original's type
	changed.TypedSpec().Power = power

	if _, err := o.Admission.Apply(ctx, o.writer, store.Change{Object: changed, Origin: apiOrigin, Cause: cause}); err != nil {
		return err
	}

	return o.endOverride(ctx, vm.Metadata().ID())
}

// vm reads a VM that is not being deleted.
func (o *operations) vm(ctx context.Context, name string) (*resources.VMConfig, error) {
	r, err := o.state.Get(ctx, resources.NewVMConfig(name).Metadata())
	if state.IsNotFoundError(err) {
		return nil, fmt.Errorf("VM %q: %w", name, errNotFound)
	}

	if err != nil {
		return nil, fmt.Errorf("error reading VM %q: %w", name, err)
	}

	vm, ok := r.(*resources.VMConfig)
	if !ok || vm.Metadata().Phase() != resource.PhaseRunning {
		return nil, usage("VM %q is being deleted", name)
	}

	return vm, nil
}

// override lays a power state above the document. Other patched fields of an override that is there stay.
func (o *operations) override(r *http.Request, vm *resources.VMConfig, request PowerRequest) error {
	now := time.Now().UTC()

	return o.modifyOverride(r.Context(), vm.Metadata().ID(), func(spec *resources.OverrideSpec) error {
		patch := map[string]any{}

		if len(spec.Patch) > 0 {
			if err := json.Unmarshal(spec.Patch, &patch); err != nil {
				return fmt.Errorf("error reading the override: %w", err)
			}
		}

		patch["power"] = request.Power

		encoded, err := json.Marshal(patch)
		if err != nil {
			return fmt.Errorf("error writing the override: %w", err)
		}

		spec.Base, err = resources.OverrideBase(vm.TypedSpec(), encoded)
		if err != nil {
			return err
		}

		spec.Patch, spec.By, spec.Since, spec.Until = encoded, peerOf(r), now, time.Time{}
		spec.Revision, spec.Cause = resources.RevisionOf(vm.Metadata()), callerOf(r).ID

		if request.For > 0 {
			spec.Until = now.Add(request.For.Std())
		}

		return nil
	})
}

// modifyOverride creates or changes the override of a VM.
func (o *operations) modifyOverride(ctx context.Context, name string, change func(*resources.OverrideSpec) error) error {
	err := o.writer.Modify(ctx, resources.NewOverride(name), func(r resource.Resource) error {
		return change(r.Spec().(*resources.OverrideSpec)) //nolint:forcetypeassert // one type a kind
	})
	if err != nil {
		return fmt.Errorf("error writing the override of VM %q: %w", name, err)
	}

	return nil
}

// endOverride takes the override of a VM away.
func (o *operations) endOverride(ctx context.Context, name string) error {
	if err := o.writer.Destroy(ctx, resources.NewOverride(name).Metadata()); err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error ending the override of VM %q: %w", name, err)
	}

	return nil
}

// RestartRequest asks for one stop and start. The same id is the same request.
type RestartRequest struct {
	VM string `json:"vm"`
	ID string `json:"id,omitempty"`
}

func (o *operations) restart(w http.ResponseWriter, r *http.Request) error {
	var request RestartRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	if _, err := o.vm(r.Context(), request.VM); err != nil {
		return err
	}

	if request.ID == "" {
		request.ID = uuid.NewString()
	}

	err := o.modifyOverride(r.Context(), request.VM, func(spec *resources.OverrideSpec) error {
		spec.RestartID, spec.Cause = request.ID, callerOf(r).ID

		if len(spec.Patch) == 0 {
			spec.By, spec.Since = peerOf(r), time.Now().UTC()
		}

		return nil
	})
	if err != nil {
		return err
	}

	return o.done(w, r, "restart", "VM/"+request.VM, request)
}

// ObjectRequest names one object.
type ObjectRequest struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`
}

// object reads the request and looks the object up.
func (o *operations) object(r *http.Request) (ObjectRequest, error) {
	var request ObjectRequest
	if err := decode(r, &request); err != nil {
		return request, err
	}

	kind, err := kindOf(request.Kind)
	if err != nil {
		return request, err
	}

	request.Kind = kind.Name
	_, err = o.one(r.Context(), kind, request.Name)

	return request, err
}

func (o *operations) hold(w http.ResponseWriter, r *http.Request) error {
	request, err := o.object(r)
	if err != nil {
		return err
	}

	if request.Kind != "VM" {
		return usage("a %s can't be held: only VMs can", request.Kind)
	}

	err = o.writer.Modify(r.Context(), resources.NewHold(resources.HoldID(request.Kind, request.Name)), func(res resource.Resource) error {
		spec := res.Spec().(*resources.HoldSpec) //nolint:forcetypeassert // one type a kind
		if spec.Since.IsZero() {
			spec.Since = time.Now().UTC()
		}

		spec.Kind, spec.Name, spec.By, spec.Reason = request.Kind, request.Name, peerOf(r), request.Reason

		return nil
	})
	if err != nil {
		return fmt.Errorf("error holding %s %q: %w", request.Kind, request.Name, err)
	}

	return o.done(w, r, "hold", request.Kind+"/"+request.Name, request)
}

func (o *operations) release(w http.ResponseWriter, r *http.Request) error {
	request, err := o.object(r)
	if err != nil {
		return err
	}

	err = o.writer.Destroy(r.Context(), resources.NewHold(resources.HoldID(request.Kind, request.Name)).Metadata())
	if state.IsNotFoundError(err) {
		return usage("%s %q is not held", request.Kind, request.Name)
	}

	if err != nil {
		return fmt.Errorf("error releasing %s %q: %w", request.Kind, request.Name, err)
	}

	return o.done(w, r, "release", request.Kind+"/"+request.Name, request)
}

// SyncRequest asks for objects to be reconciled now.
type SyncRequest = resources.Target

func (o *operations) sync(w http.ResponseWriter, r *http.Request) error {
	var target SyncRequest
	if err := decode(r, &target); err != nil {
		return err
	}

	target, err := o.Sync(r.Context(), callerOf(r), target)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, target)

	return nil
}

// ConfirmRequest lets the mass deletion of a documents directory proceed.
type ConfirmRequest struct {
	Root string `json:"root"`
}

func (o *operations) confirm(w http.ResponseWriter, r *http.Request) error {
	var request ConfirmRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	guard, err := o.state.Get(r.Context(), resources.NewDeletionGuard(resources.FileID(request.Root)).Metadata())
	if state.IsNotFoundError(err) {
		return usage("no deletion of %s waits for a confirmation", request.Root)
	}

	if err != nil {
		return fmt.Errorf("error reading the deletion guard of %s: %w", request.Root, err)
	}

	held := guard.Spec().(*resources.DeletionGuardSpec) //nolint:forcetypeassert // one type a kind

	body, err := json.Marshal(map[string]string{"digest": held.Digest})
	if err != nil {
		return fmt.Errorf("error encoding the confirmation: %w", err)
	}

	action := resources.NewAction(resources.EventID("confirm", request.Root, held.Digest, held.Since.String()))
	*action.TypedSpec() = resources.ActionSpec{Verb: resources.ActionConfirm, Subject: request.Root, Body: body, By: "api", Cause: callerOf(r).ID}
	action.Metadata().Finalizers().Add(resources.FinalizerDocuments)

	if err := o.state.Create(r.Context(), action); err != nil && !state.IsConflictError(err) {
		return fmt.Errorf("error confirming the deletion: %w", err)
	}

	return o.done(w, r, "confirm", request.Root, held)
}
