// The programs of a Kubernetes cluster in one: the first argument names the one to be.
//
// One program is linked once and shares what the four have in common. A test cluster starts it four times.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	}
	return nil
}

func main() {
	if len(os.Args) > 1 {
		if found := command(os.Args[1]); found != nil {
			os.Args = os.Args[1:]
			os.Exit(cli.Run(found))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: cluster kube-apiserver|kube-controller-manager|kube-scheduler|kubelet [FLAG …]")
	os.Exit(2)
}
