package main

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "web.example.com", Version: "v1"}

// Site is a web site. It owns a Page for each of its pages, and a Deployment that serves them.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec `json:"spec"`
}

// SiteSpec is what a site consists of.
type SiteSpec struct {
	// Pages are the texts of the pages, by name.
	Pages map[string]string `json:"pages"`
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// Page is one page of a site. It owns a ConfigMap with its text.
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PageSpec `json:"spec"`
}

// PageSpec is what a page says.
type PageSpec struct {
	Text string `json:"text"`
}

// PageList is a list of pages.
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Page `json:"items"`
}

func addTypes(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Site{}, &SiteList{}, &Page{}, &PageList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// controller-gen generates the rest of such a file.

// DeepCopyInto copies the site into out.
func (in *Site) DeepCopyInto(out *Site) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Pages = maps.Clone(in.Spec.Pages)
}

// DeepCopyObject copies the site.
func (in *Site) DeepCopyObject() runtime.Object {
	out := &Site{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the list.
func (in *SiteList) DeepCopyObject() runtime.Object {
	out := &SiteList{TypeMeta: in.TypeMeta, Items: make([]Site, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// DeepCopyInto copies the page into out.
func (in *Page) DeepCopyInto(out *Page) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject copies the page.
func (in *Page) DeepCopyObject() runtime.Object {
	out := &Page{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the list.
func (in *PageList) DeepCopyObject() runtime.Object {
	out := &PageList{TypeMeta: in.TypeMeta, Items: make([]Page, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
